// Parts and frames: what a client sends when it publishes, and what is sent to those who get it.
//
// Only the one form in which our own clients write a publication is read here. Any other is as good, and is left to
// Python. What is written is what msgspec writes, byte for byte: integers in their shortest form.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>

#include "value.hpp"

namespace tidings {

constexpr size_t PART_HEADER = 5;  // the length of kind and payload, in four bytes, and the kind
constexpr uint64_t MAX_NUMBER = INT64_MAX;

struct Publication {
    uint64_t seq;
    View body;
    unsigned quality;  // as it was asked for
    bool has_ttl;
    uint64_t ttl;
};

// Whether a frame holds a publication in its plain form.
bool is_plain(View frame, Publication& into);

// What a neighbour brings, in the form in which brokers write it.
struct Passing {
    View envelope;  // as it is passed on
    View origin, publisher;
    uint64_t epoch, seq;
    View routes;
    View body;
};

// Where there are scopes, the route of a notification names whoever published it: it is between these. Then it must be
// judged by this version of the graph.
struct Scoped {
    std::string before, after, version;  // all empty: there are none
};

// Whether a frame holds a notification in its plain form, with these routes (if any) or those of a scope, and this hop. Python
// would write it again just as it is here.
bool is_passing(View frame, View routes, const Scoped& scoped, View hop, Passing& into);

// What a broker sends to a client, in the form in which brokers write it.
struct Delivery {
    View origin, publisher;
    uint64_t epoch, seq, publisher_seq;
    View routes;
    View body;
    View closing;  // the subscriptions that it is for, and the hop
};

// Whether a frame holds a notification for a client. `before` is the one before it, of which much will be the same.
bool is_delivery(View frame, const Delivery* before, Delivery& into);

// Whether every part in these bytes has a length and a kind that can be.
bool is_sound(View bytes, size_t limit);

// The size of the part at the start of these bytes, its header included, and its kind; 0: it is not whole.
size_t whole_part(View bytes, unsigned& kind);

void put_number(std::string& into, uint64_t number);
void put_bytes(std::string& into, View bytes);

// A DATA part from the pieces of its frame.
void put_part(std::string& into, std::initializer_list<View> pieces);

}  // namespace tidings

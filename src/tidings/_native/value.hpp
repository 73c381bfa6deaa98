// Values as the engine sees them: a kind, and a number or bytes that somebody else owns.
//
// A number is its nearest double and what is left of an integer beyond that, compared in this order: rounding keeps the
// order, so integers of 64 bits and floats compare exactly. Times are numbers of microseconds since 1970, booleans are
// 0 and 1; since kinds never mix, neither meets a number. Texts are UTF-8, whose bytes are in the order of code points.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace tidings {

enum class Kind : uint8_t { Missing, Boolean, Number, Text, Bytes, Time, Place, List };
constexpr int KINDS = 7;  // without lists; `Missing` is one of them, for its number

struct Number {
    double near;
    int64_t rest;
};

inline bool operator<(const Number& a, const Number& b) {
    return a.near < b.near || (a.near == b.near && a.rest < b.rest);
}

inline bool operator==(const Number& a, const Number& b) { return a.near == b.near && a.rest == b.rest; }

inline Number number(int64_t exact) {
    const double near = static_cast<double>(exact);
    if (near >= 9223372036854775808.0) return {near, (exact - INT64_MAX) - 1};
    return {near, exact - static_cast<int64_t>(near)};
}

inline Number number(double value) { return {value == 0 ? 0.0 : value, 0}; }  // -0.0 is 0.0

struct View {
    const char* at;
    size_t size;
};

inline int compare(View a, View b) {
    const size_t shared = a.size < b.size ? a.size : b.size;
    const int order = shared ? std::memcmp(a.at, b.at, shared) : 0;
    return order ? order : (a.size < b.size ? -1 : a.size > b.size);
}

inline bool operator==(View a, View b) { return a.size == b.size && (a.size == 0 || !std::memcmp(a.at, b.at, a.size)); }
inline bool operator<(View a, View b) { return compare(a, b) < 0; }

struct Value {
    Kind kind = Kind::Missing;
    union {
        Number number;  // Boolean, Number, Time
        View bytes;     // Text, Bytes, Place: the parts of a path, joined by '/'
        struct {
            const Value* items;
            size_t count;
        } list;
    };

    Value() : number{0, 0} {}
    Value(Kind kind, Number number) : kind(kind), number(number) {}
    Value(Kind kind, View bytes) : kind(kind), bytes(bytes) {}
    bool is_numeric() const { return kind == Kind::Number || kind == Kind::Time || kind == Kind::Boolean; }
};

// Bytes, a seed and a size in one number. Whatever is found by it is checked, so a collision costs time only.
inline uint64_t mixed(uint64_t hash, uint64_t word) {
    hash = (hash ^ word) * 0x9E3779B97F4A7C15ull;
    return hash ^ (hash >> 29);
}

inline uint64_t hashed(View bytes, uint64_t seed) {
    uint64_t hash = mixed(seed, bytes.size);
    const char* at = bytes.at;
    size_t left = bytes.size;
    for (; left >= 8; at += 8, left -= 8) {
        uint64_t word;
        std::memcpy(&word, at, 8);
        hash = mixed(hash, word);
    }
    if (left) {
        uint64_t word = 0;
        std::memcpy(&word, at, left);
        hash = mixed(hash, word);
    }
    return mixed(hash, 0x2545F4914F6CDD1Dull);
}

inline uint64_t hashed(Number number, uint64_t seed) {
    uint64_t word;
    std::memcpy(&word, &number.near, 8);
    return mixed(mixed(mixed(seed, word), static_cast<uint64_t>(number.rest)), 0x2545F4914F6CDD1Dull);
}

}  // namespace tidings

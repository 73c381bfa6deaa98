// One constraint, and whether a value passes it. The meaning is that of `tidings.model.operators`.
//
// A missing attribute passes `IS NULL` only. A scalar passes if it has the kind of the operand and the operator holds,
// or, negated, does not. A list passes if the operator holds for some element, whichever kinds the others have; of a
// range, each bound asks for some element; negated, it passes if the operator holds for none.
#pragma once

#include "value.hpp"

namespace tidings {

enum class Op : uint8_t { Equal, In, Range, Within, Prefix, Suffix, Contains, Like, Exists, Null, Ask };

// Where bytes lie in the operands of a conjunction.
struct Place {
    uint32_t at;
    uint32_t size;
};

struct Test {
    uint32_t attribute = 0;
    Op op = Op::Ask;
    Kind kind = Kind::Missing;
    bool negated = false;
    // Ranges of texts and bytes: which bounds there are, and which are open. Numbers have all bounds, closed: beyond
    // infinity for those that are missing, and one further, in the rest, for those that are open.
    bool has_low = false, low_open = false, has_high = false, high_open = false;
    uint32_t count = 0;  // of the operands of `In`
    union {
        struct {
            Number low, high;  // `Equal`: low alone
        };
        struct {
            Place first, second;
        };
        void* asked;
    };

    Test() : low{0, 0}, high{0, 0} {}
    bool is_numeric() const { return kind == Kind::Number || kind == Kind::Time || kind == Kind::Boolean; }
};

inline View text_of(const char* operands, Place place) { return {operands + place.at, place.size}; }

// The n-th operand of `In`. They are in order.
Number number_in(const Test& test, const char* operands, uint32_t n);
View bytes_in(const Test& test, const char* operands, uint32_t n);

bool holds_bytes(const Test& test, const char* operands, View bytes);
bool holds_in(const Test& test, const char* operands, Number value);
bool passes_list(const Test& test, const char* operands, const Value& value);

// Whether a scalar is one of those that the operator accepts.
inline bool holds(const Test& test, const char* operands, const Value& value) {
    if (value.kind != test.kind) return false;
    if (!test.is_numeric()) return holds_bytes(test, operands, value.bytes);
    if (test.op == Op::Range) return !(value.number < test.low) && !(test.high < value.number);
    if (test.op == Op::Equal) return value.number == test.low;
    return holds_in(test, operands, value.number);
}

// Whether an attribute passes. `Ask` is somebody else's business, and passes here.
inline bool passes(const Test& test, const char* operands, const Value& value) {
    if (value.kind == Kind::Missing) return test.op == Op::Null || test.op == Op::Ask;
    if (test.op >= Op::Exists) return test.op != Op::Null;
    if (value.kind == Kind::List) return passes_list(test, operands, value);
    return test.negated ? value.kind == test.kind && !holds(test, operands, value) : holds(test, operands, value);
}

}  // namespace tidings

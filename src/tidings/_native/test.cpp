#include "test.hpp"

#include "text.hpp"

namespace tidings {

namespace {

Place place_in(const Test& test, const char* operands, uint32_t n) {
    Place place;
    std::memcpy(&place, operands + test.first.at + n * sizeof place, sizeof place);
    return place;
}

bool is_above(const Test& test, const char* operands, View bytes) {
    if (!test.has_low) return true;
    const int order = compare(bytes, text_of(operands, test.first));
    return test.low_open ? order > 0 : order >= 0;
}

bool is_below(const Test& test, const char* operands, View bytes) {
    if (!test.has_high) return true;
    const int order = compare(bytes, text_of(operands, test.second));
    return test.high_open ? order < 0 : order <= 0;
}

bool is_within(View place, View around) {
    if (!around.size) return true;
    if (place.size < around.size || std::memcmp(place.at, around.at, around.size)) return false;
    return place.size == around.size || place.at[around.size] == '/';
}

// Each bound asks for some element of its kind.
bool spans(const Test& test, const char* operands, const Value& value) {
    bool above = false, below = false;
    for (size_t i = 0; i < value.list.count && !(above && below); ++i) {
        const Value& item = value.list.items[i];
        if (item.kind != test.kind) continue;
        if (test.is_numeric()) {
            above = above || !(item.number < test.low);
            below = below || !(test.high < item.number);
        } else {
            above = above || is_above(test, operands, item.bytes);
            below = below || is_below(test, operands, item.bytes);
        }
    }
    return above && below;
}

}  // namespace

Number number_in(const Test& test, const char* operands, uint32_t n) {
    Number number;
    std::memcpy(&number, operands + test.first.at + n * sizeof number, sizeof number);
    return number;
}

View bytes_in(const Test& test, const char* operands, uint32_t n) {
    return text_of(operands, place_in(test, operands, n));
}

bool holds_in(const Test& test, const char* operands, Number value) {
    uint32_t low = 0, high = test.count;
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (number_in(test, operands, middle) < value) low = middle + 1;
        else high = middle;
    }
    return low < test.count && number_in(test, operands, low) == value;
}

bool holds_bytes(const Test& test, const char* operands, View bytes) {
    switch (test.op) {
        case Op::Equal: return bytes == text_of(operands, test.first);
        case Op::In: {
            uint32_t low = 0, high = test.count;
            while (low < high) {
                const uint32_t middle = (low + high) / 2;
                if (bytes_in(test, operands, middle) < bytes) low = middle + 1;
                else high = middle;
            }
            return low < test.count && bytes_in(test, operands, low) == bytes;
        }
        case Op::Range: return is_above(test, operands, bytes) && is_below(test, operands, bytes);
        case Op::Within: return is_within(bytes, text_of(operands, test.first));
        case Op::Prefix:
            return bytes.size >= test.first.size && View{bytes.at, test.first.size} == text_of(operands, test.first);
        case Op::Suffix:
            return bytes.size >= test.first.size &&
                   View{bytes.at + (bytes.size - test.first.size), test.first.size} == text_of(operands, test.first);
        case Op::Contains: {
            const View part = text_of(operands, test.first);
            return !part.size || found(bytes, part, 0) < bytes.size;
        }
        case Op::Like: return Pattern::fits(text_of(operands, test.first), bytes);
        default: return false;
    }
}

bool passes_list(const Test& test, const char* operands, const Value& value) {
    if (test.op == Op::Range && !test.negated) return spans(test, operands, value);
    for (size_t i = 0; i < value.list.count; ++i)
        if (holds(test, operands, value.list.items[i])) return !test.negated;
    return test.negated;
}

}  // namespace tidings

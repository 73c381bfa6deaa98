// From byte to byte through msgpack; nothing is read that is not there.
#pragma once

#include <cmath>

#include "value.hpp"

namespace tidings {

constexpr int64_t FIRST_SECOND = -62135596800;  // the year 1
constexpr int64_t LAST_SECOND = 253402300799;   // the end of the year 9999

class Cursor {
public:
    explicit Cursor(View bytes)
        : at_(reinterpret_cast<const unsigned char*>(bytes.at)), end_(at_ + bytes.size) {}

    bool at_end() const { return at_ == end_; }
    const char* here() const { return reinterpret_cast<const char*>(at_); }
    bool has(size_t size) const { return static_cast<size_t>(end_ - at_) >= size; }

    bool byte(unsigned& value) {
        if (at_ == end_) return false;
        value = *at_++;
        return true;
    }

    bool big(int size, uint64_t& value) {
        if (!has(static_cast<size_t>(size))) return false;
        value = 0;
        for (int i = 0; i < size; ++i) value = value << 8 | *at_++;
        return true;
    }

    bool bytes(size_t size, View& view) {
        if (!has(size)) return false;
        view = {reinterpret_cast<const char*>(at_), size};
        at_ += size;
        return true;
    }

    bool sized(int width, View& view) {
        uint64_t size;
        return big(width, size) && bytes(static_cast<size_t>(size), view);
    }

    bool text(unsigned tag, View& view) {
        if ((tag & 0xE0) == 0xA0) return bytes(tag & 0x1F, view);
        if (tag >= 0xD9 && tag <= 0xDB) return sized(1 << (tag - 0xD9), view);
        return false;
    }

private:
    const unsigned char* at_;
    const unsigned char* end_;
};

// How many there are in a list or a map, if this is its tag.
inline bool counted(Cursor& cursor, unsigned tag, unsigned fixed, unsigned wide, uint64_t& count) {
    if ((tag & 0xF0) == fixed) {
        count = tag & 0x0F;
        return true;
    }
    return (tag == wide || tag == wide + 1) && cursor.big(tag == wide ? 2 : 4, count);
}

// Go behind the value that begins here; false if it does not end, or is nested deeper.
inline bool skip(Cursor& cursor, int depth) {
    unsigned tag;
    if (!cursor.byte(tag)) return false;
    if (tag < 0x80 || tag >= 0xE0 || (tag >= 0xC0 && tag <= 0xC3)) return tag != 0xC1;
    View view;
    uint64_t count;
    if ((tag & 0xE0) == 0xA0 || (tag >= 0xD9 && tag <= 0xDB)) return cursor.text(tag, view);
    const bool is_map = (tag & 0xF0) == 0x80 || tag == 0xDE || tag == 0xDF;
    if (is_map || (tag & 0xF0) == 0x90 || tag >= 0xDC) {
        if (depth == 0 || !counted(cursor, tag, is_map ? 0x80 : 0x90, is_map ? 0xDE : 0xDC, count)) return false;
        for (count *= is_map ? 2 : 1; count; --count)
            if (!skip(cursor, depth - 1)) return false;
        return true;
    }
    if (tag <= 0xC6) return cursor.sized(1 << (tag - 0xC4), view);
    if (tag <= 0xC9)  // an extension: its size, its type, its data
        return cursor.big(1 << (tag - 0xC7), count) && cursor.bytes(1, view) &&
               cursor.bytes(static_cast<size_t>(count), view);
    if (tag <= 0xCB) return cursor.bytes(tag == 0xCA ? 4 : 8, view);
    if (tag <= 0xD3) return cursor.bytes(size_t{1} << (tag - (tag >= 0xD0 ? 0xD0u : 0xCCu)), view);
    return cursor.bytes(1 + (size_t{1} << (tag - 0xD4)), view);
}

// An integer behind its tag, from 0xCC to 0xD3; false if 64 bits with a sign cannot hold it.
inline bool integer(Cursor& cursor, unsigned tag, int64_t& found) {
    const bool is_signed = tag >= 0xD0;
    const int size = 1 << (tag - (is_signed ? 0xD0u : 0xCCu));
    uint64_t word;
    if (!cursor.big(size, word)) return false;
    if (!is_signed) {
        if (word > INT64_MAX) return false;
        found = static_cast<int64_t>(word);
    } else {
        const uint64_t sign = 1ull << (8 * size - 1);
        found = static_cast<int64_t>((word ^ sign) - sign);  // spreads the sign over all bits
    }
    return true;
}

// A float of 4 or 8 bytes; false if it is not finite.
inline bool floating(Cursor& cursor, int size, double& found) {
    uint64_t word;
    if (!cursor.big(size, word)) return false;
    if (size == 4) {
        const auto half = static_cast<uint32_t>(word);
        float single;
        std::memcpy(&single, &half, 4);
        found = single;
    } else {
        std::memcpy(&found, &word, 8);
    }
    return std::isfinite(found);
}

// The time in an extension of type -1, in microseconds since 1970; false if Python has no such time.
inline bool instant(View data, int64_t& microseconds) {
    Cursor cursor(data);
    uint64_t nanoseconds = 0, seconds;
    switch (data.size) {
        case 4:
            if (!cursor.big(4, seconds)) return false;
            break;
        case 8:
            if (!cursor.big(8, seconds)) return false;
            nanoseconds = seconds >> 34;
            seconds &= 0x3FFFFFFFFull;
            break;
        case 12:
            if (!cursor.big(4, nanoseconds) || !cursor.big(8, seconds)) return false;
            break;
        default: return false;
    }
    const auto since = static_cast<int64_t>(seconds);
    if (nanoseconds > 999999999 || nanoseconds % 1000 || since < FIRST_SECOND || since > LAST_SECOND) return false;
    microseconds = since * 1000000 + static_cast<int64_t>(nanoseconds / 1000);
    return true;
}

}  // namespace tidings

#include "body.hpp"

#include <cmath>

#include "text.hpp"

namespace tidings {

bool as_path(View written, View& parts) {
    const char* at = written.at;
    size_t size = written.size;
    while (size && *at == '/') ++at, --size;
    while (size && at[size - 1] == '/') --size;
    if (size > MAX_PATH) return false;
    size_t levels = size ? 1 : 0;
    for (size_t i = 0; i + 1 < size; ++i) {
        if (at[i] != '/') continue;
        if (at[i + 1] == '/') return false;
        ++levels;
    }
    if (levels > MAX_DEPTH || !is_utf8({at, size})) return false;
    parts = {at, size};
    return true;
}

namespace {

class Cursor {
public:
    explicit Cursor(View bytes)
        : at_(reinterpret_cast<const unsigned char*>(bytes.at)), end_(at_ + bytes.size) {}

    bool at_end() const { return at_ == end_; }
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

bool time_of(uint64_t nanoseconds, int64_t seconds, Value& value) {
    if (nanoseconds > 999999999 || nanoseconds % 1000) return false;
    if (seconds < FIRST_SECOND || seconds > LAST_SECOND) return false;
    value = Value(Kind::Time, number(seconds * 1000000 + static_cast<int64_t>(nanoseconds / 1000)));
    return true;
}

bool extension(View data, int code, Value& value) {
    if (code == 1) {
        View path;
        if (!as_path(data, path)) return false;
        value = Value(Kind::Place, path);
        return true;
    }
    if (code != -1) return false;
    Cursor cursor(data);
    uint64_t word, seconds;
    switch (data.size) {
        case 4: return cursor.big(4, word) && time_of(0, static_cast<int64_t>(word), value);
        case 8:
            return cursor.big(8, word) && time_of(word >> 34, static_cast<int64_t>(word & 0x3FFFFFFFFull), value);
        case 12:
            return cursor.big(4, word) && cursor.big(8, seconds) && time_of(word, static_cast<int64_t>(seconds), value);
        default: return false;
    }
}

bool floating(Cursor& cursor, int size, Value& value) {
    uint64_t word;
    if (!cursor.big(size, word)) return false;
    double found;
    if (size == 4) {
        const auto half = static_cast<uint32_t>(word);
        float single;
        std::memcpy(&single, &half, 4);
        found = single;
    } else {
        std::memcpy(&found, &word, 8);
    }
    if (!std::isfinite(found)) return false;
    value = Value(Kind::Number, number(found));
    return true;
}

bool integer(Cursor& cursor, unsigned tag, Value& value) {
    const bool is_signed = tag >= 0xD0;
    const int size = 1 << (tag - (is_signed ? 0xD0u : 0xCCu));
    uint64_t word;
    if (!cursor.big(size, word)) return false;
    int64_t found;
    if (!is_signed) {
        if (word > INT64_MAX) return false;
        found = static_cast<int64_t>(word);
    } else {
        const uint64_t sign = 1ull << (8 * size - 1);
        found = static_cast<int64_t>((word ^ sign) - sign);  // spreads the sign over all bits
    }
    value = Value(Kind::Number, number(found));
    return true;
}

bool scalar(Cursor& cursor, unsigned tag, Value& value) {
    if (tag < 0x80) {
        value = Value(Kind::Number, Number{static_cast<double>(tag), 0});
        return true;
    }
    if (tag >= 0xE0) {
        value = Value(Kind::Number, Number{static_cast<double>(static_cast<int>(tag) - 256), 0});
        return true;
    }
    View view;
    if (cursor.text(tag, view)) {
        if (!is_utf8(view)) return false;
        value = Value(Kind::Text, view);
        return true;
    }
    uint64_t size;
    unsigned code;
    switch (tag) {
        case 0xC2: value = Value(Kind::Boolean, Number{0, 0}); return true;
        case 0xC3: value = Value(Kind::Boolean, Number{1, 0}); return true;
        case 0xC4: case 0xC5: case 0xC6:
            if (!cursor.sized(1 << (tag - 0xC4), view)) return false;
            value = Value(Kind::Bytes, view);
            return true;
        case 0xC7: case 0xC8: case 0xC9:
            if (!cursor.big(1 << (tag - 0xC7), size) || !cursor.byte(code)) return false;
            return cursor.bytes(static_cast<size_t>(size), view) && extension(view, static_cast<int8_t>(code), value);
        case 0xCA: return floating(cursor, 4, value);
        case 0xCB: return floating(cursor, 8, value);
        case 0xCC: case 0xCD: case 0xCE: case 0xCF:
        case 0xD0: case 0xD1: case 0xD2: case 0xD3:
            return integer(cursor, tag, value);
        case 0xD4: case 0xD5: case 0xD6: case 0xD7: case 0xD8:
            if (!cursor.byte(code) || !cursor.bytes(size_t{1} << (tag - 0xD4), view)) return false;
            return extension(view, static_cast<int8_t>(code), value);
        default: return false;
    }
}

bool counted(Cursor& cursor, unsigned tag, unsigned fixed, unsigned wide, uint64_t& count) {
    if ((tag & 0xF0) == fixed) {
        count = tag & 0x0F;
        return true;
    }
    return (tag == wide || tag == wide + 1) && cursor.big(tag == wide ? 2 : 4, count);
}

}  // namespace

bool BodyReader::read(View body, const Names& names, Reading& into) {
    into.begin(names.size());
    others_.clear();
    into.weight = body.size;
    if (body.size > MAX_BODY) return false;
    Cursor cursor(body);
    unsigned tag;
    uint64_t count;
    if (!cursor.byte(tag) || !counted(cursor, tag, 0x80, 0xDE, count) || count > MAX_ATTRIBUTES) return false;
    if (guesses_.size() < count) guesses_.resize(count, Names::UNKNOWN);
    for (size_t at = 0; at < count; ++at) {
        View name;
        if (!cursor.byte(tag) || !cursor.text(tag, name) || !name.size || name.size > MAX_NAME) return false;
        uint32_t attribute = guesses_[at];
        if (attribute >= names.size() || !names.is(attribute, name)) attribute = guesses_[at] = names.find(name);
        if (attribute == Names::UNKNOWN) {
            if (!is_utf8(name)) return false;
            const uint64_t hash = hashed(name, 1);
            for (const uint64_t other : others_)
                if (other == hash) return false;
            others_.push_back(hash);
        }
        uint64_t items;
        Value value;
        if (!cursor.byte(tag)) return false;
        if (counted(cursor, tag, 0x90, 0xDC, items)) {
            if (items > MAX_LIST) return false;
            into.begin_list();
            for (; items; --items) {
                if (!cursor.byte(tag) || !scalar(cursor, tag, value)) return false;
                if (attribute != Names::UNKNOWN) into.put_item(value);
            }
            if (attribute != Names::UNKNOWN && !into.put_list(attribute)) return false;
        } else {
            if (!scalar(cursor, tag, value)) return false;
            if (attribute != Names::UNKNOWN && !into.put(attribute, value)) return false;
        }
    }
    into.end();
    return cursor.at_end();
}

}  // namespace tidings

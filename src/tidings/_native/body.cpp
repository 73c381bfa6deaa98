#include "body.hpp"

#include "cursor.hpp"
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

bool extension(View data, int code, Value& value) {
    if (code == 1) {
        View path;
        if (!as_path(data, path)) return false;
        value = Value(Kind::Place, path);
        return true;
    }
    int64_t microseconds;
    if (code != -1 || !instant(data, microseconds)) return false;
    value = Value(Kind::Time, number(microseconds));
    return true;
}

bool real(Cursor& cursor, int size, Value& value) {
    double found;
    if (!floating(cursor, size, found)) return false;
    value = Value(Kind::Number, number(found));
    return true;
}

bool whole(Cursor& cursor, unsigned tag, Value& value) {
    int64_t found;
    if (!integer(cursor, tag, found)) return false;
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
        case 0xCA: return real(cursor, 4, value);
        case 0xCB: return real(cursor, 8, value);
        case 0xCC: case 0xCD: case 0xCE: case 0xCF:
        case 0xD0: case 0xD1: case 0xD2: case 0xD3:
            return whole(cursor, tag, value);
        case 0xD4: case 0xD5: case 0xD6: case 0xD7: case 0xD8:
            if (!cursor.byte(code) || !cursor.bytes(size_t{1} << (tag - 0xD4), view)) return false;
            return extension(view, static_cast<int8_t>(code), value);
        default: return false;
    }
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

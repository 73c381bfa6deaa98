#include "columns.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "body.hpp"
#include "cursor.hpp"
#include "text.hpp"

namespace tidings {

namespace {

constexpr unsigned ENVELOPE = 0x94, IDENTITY = 0x98, ROUTE = 0x96, LAST_STATE = 2, NIL = 0xC0;
constexpr uint64_t LARGEST_INDEX = INT16_MAX;  // of an element in its list
constexpr int64_t EXACT = int64_t{1} << 53;    // up to here a float holds integers exactly

// --- reading ---------------------------------------------------------------------------------------------

bool number(Cursor& cursor, int64_t& found) {
    unsigned tag;
    if (!cursor.byte(tag)) return false;
    if (tag < 0x80) {
        found = tag;
        return true;
    }
    return tag >= 0xCC && tag <= 0xCF && integer(cursor, tag, found);
}

bool text(Cursor& cursor, View& found) {
    unsigned tag;
    return cursor.byte(tag) && cursor.text(tag, found);
}

bool bytes(Cursor& cursor, View& found) {
    unsigned tag;
    return cursor.byte(tag) && tag >= 0xC4 && tag <= 0xC6 && cursor.sized(1 << (tag - 0xC4), found);
}

bool list(Cursor& cursor, uint64_t& count) {
    unsigned tag;
    return cursor.byte(tag) && counted(cursor, tag, 0x90, 0xDC, count) && cursor.has(static_cast<size_t>(count));
}

bool valid_text(Cursor& cursor) {
    View found;
    return text(cursor, found) && is_utf8(found);
}

bool texts(Cursor& cursor) {
    uint64_t count;
    if (!list(cursor, count)) return false;
    for (; count; --count)
        if (!valid_text(cursor)) return false;
    return true;
}

// A route as brokers write it: scope, state, source, path, version, tags.
bool route(Cursor& cursor) {
    unsigned tag;
    int64_t version;
    if (!cursor.byte(tag) || tag != ROUTE || !valid_text(cursor) || !cursor.byte(tag) || tag > LAST_STATE) return false;
    return valid_text(cursor) && texts(cursor) && number(cursor, version) && texts(cursor);
}

bool extension(View data, int code, Scalar& value) {
    if (code == 1) {
        value.form = PLACE;
        return as_path(data, value.bytes);
    }
    value.form = TIME;
    return code == -1 && instant(data, value.whole);
}

bool scalar(Cursor& cursor, unsigned tag, Scalar& value) {
    uint64_t size;
    unsigned code;
    View view;
    if (tag < 0x80 || tag >= 0xE0) {
        value.form = INTEGER;
        value.whole = static_cast<int8_t>(tag);
        return true;
    }
    if (cursor.text(tag, value.bytes)) {
        value.form = TEXT;
        return is_utf8(value.bytes);
    }
    switch (tag) {
        case 0xC2: case 0xC3:
            value.form = BOOLEAN;
            value.whole = tag == 0xC3;
            return true;
        case 0xC4: case 0xC5: case 0xC6:
            value.form = BYTES;
            return cursor.sized(1 << (tag - 0xC4), value.bytes);
        case 0xC7: case 0xC8: case 0xC9:
            if (!cursor.big(1 << (tag - 0xC7), size) || !cursor.byte(code)) return false;
            return cursor.bytes(static_cast<size_t>(size), view) && extension(view, static_cast<int8_t>(code), value);
        case 0xCA: case 0xCB:
            value.form = FLOAT;
            return floating(cursor, tag == 0xCA ? 4 : 8, value.real);
        case 0xCC: case 0xCD: case 0xCE: case 0xCF:
        case 0xD0: case 0xD1: case 0xD2: case 0xD3:
            value.form = INTEGER;
            return integer(cursor, tag, value.whole);
        case 0xD4: case 0xD5: case 0xD6: case 0xD7: case 0xD8:
            if (!cursor.byte(code) || !cursor.bytes(size_t{1} << (tag - 0xD4), view)) return false;
            return extension(view, static_cast<int8_t>(code), value);
        default: return false;
    }
}

size_t length(const Scalar& value) { return value.bytes.size + (value.form == PLACE ? 1 : 0); }

bool is_text(uint8_t form) { return form == TEXT || form == BYTES || form == PLACE; }

// --- writing ---------------------------------------------------------------------------------------------

void set(std::string& bits, size_t at) { bits[at >> 3] = static_cast<char>(bits[at >> 3] | 1 << (at & 7)); }

std::string bits(size_t count) { return std::string((count + 7) / 8, '\0'); }

template <class T>
void write(std::string& into, size_t at, T value) {
    std::memcpy(&into[at * sizeof(T)], &value, sizeof(T));
}

// A column of values of one form, filled from its beginning to its end.
class Column {
public:
    Column(uint8_t form, size_t count, size_t present, size_t size) : form_(form), count_(count) {
        written_.is_null = present == 0 && count != 0;
        if (written_.is_null) return;
        written_.nulls = count - present;
        if (written_.nulls) written_.valid = bits(count);
        if (is_text(form)) {
            written_.values.resize((count + 1) * sizeof(int32_t));
            written_.data.emplace();
            written_.data->reserve(size);
        } else {
            written_.values = form == BOOLEAN ? bits(count) : std::string(count * sizeof(int64_t), '\0');
        }
    }

    void put(size_t at, const Scalar& value) {
        if (written_.is_null || at >= count_ || value.form != form_) return;
        if (written_.nulls) set(written_.valid, at);
        if (is_text(form_)) {
            fill(at);
            if (form_ == PLACE) written_.data->push_back('/');
            written_.data->append(value.bytes.at, value.bytes.size);
        } else if (form_ == BOOLEAN) {
            if (value.whole) set(written_.values, at);
        } else if (form_ == FLOAT) {
            write(written_.values, at, value.real);
        } else {
            write(written_.values, at, value.whole);
        }
    }

    Buffers end() {
        if (!written_.is_null && is_text(form_)) fill(count_);
        return std::move(written_);
    }

private:
    // Whatever comes up to here begins where the data ends now.
    void fill(size_t at) {
        for (; next_ <= at; ++next_) write(written_.values, next_, static_cast<int32_t>(written_.data->size()));
    }

    const uint8_t form_;
    const size_t count_;
    size_t next_ = 0;
    Buffers written_;
};

}  // namespace

Columns::Columns(std::string origin, std::vector<PromotedColumn> promoted, bool with_body)
    : origin_(std::move(origin)), promoted_(std::move(promoted)), with_body_(with_body),
      complete_(promoted_.size(), true) {}

void Columns::clear() {
    rows_.clear();
    promotions_.clear();
    counts_ = Counts();
    kept_ = 0;
    known_.clear();
    columns_.clear();
    complete_.assign(promoted_.size(), true);
}

bool Columns::add(View batch, Added& added) {
    const size_t rows = rows_.size(), promotions = promotions_.size();
    const Counts counts = counts_;
    const std::vector<bool> complete = complete_;
    const auto undo = [&] {
        rows_.resize(rows);
        promotions_.resize(promotions);
        counts_ = counts;
        complete_ = complete;
        known_.clear();  // they may be of this batch
        columns_.clear();
        return false;
    };
    if (batch.size > MOST - kept_) return false;
    Cursor cursor(batch);
    unsigned tag;
    uint64_t count;
    if (!cursor.byte(tag) || !counted(cursor, tag, 0x90, 0xDC, count)) return false;
    try {
        for (; count; --count)
            if (!read(cursor)) return undo();
    } catch (...) {
        undo();
        throw;
    }
    if (!cursor.at_end() || counts_.names > MOST || counts_.entries > MOST / sizeof(int64_t)) return undo();
    kept_ += batch.size;
    added = {rows_.size() - rows, 0, counts_.names - counts.names};
    for (size_t at = rows; at < rows_.size(); ++at) added.bodies += rows_[at].body.size;
    return true;
}

bool Columns::read(Cursor& cursor) {
    Row row;
    unsigned tag;
    if (!cursor.byte(tag) || tag != ENVELOPE || !read_identity(cursor, row)) return false;
    const char* const begun = cursor.here();
    uint64_t routes;
    if (!list(cursor, routes)) return false;
    for (; routes; --routes)
        if (!route(cursor)) return false;
    row.routes = {begun, static_cast<size_t>(cursor.here() - begun)};
    if (!bytes(cursor, row.body) || !cursor.byte(tag) || tag > 3) return false;
    row.quality = static_cast<uint8_t>(tag);
    promotions_.resize(promotions_.size() + promoted_.size());
    rows_.push_back(row);
    return read_body(row.body, counts_);
}

bool Columns::read_identity(Cursor& cursor, Row& row) {
    unsigned tag;
    View origin;
    if (!cursor.byte(tag) || tag != IDENTITY || !text(cursor, origin)) return false;
    if (!(origin == View{origin_.data(), origin_.size()})) return false;
    if (!number(cursor, row.epoch) || !number(cursor, row.seq) || !text(cursor, row.publisher)) return false;
    const bool known = !rows_.empty() && rows_.back().publisher == row.publisher;
    if (!known && !is_utf8(row.publisher)) return false;
    if (!number(cursor, row.publisher_seq) || !number(cursor, row.published_at)) return false;
    if (!number(cursor, row.graph_epoch)) return false;
    row.ttl = -1;
    if (!cursor.has(1)) return false;
    if (static_cast<unsigned char>(*cursor.here()) == NIL) return cursor.byte(tag);
    return number(cursor, row.ttl);
}

// Whether these names are texts that differ; then it is known which of them are promoted.
bool Columns::names_follow(const std::vector<View>& names) {
    std::vector<View> sorted(names);
    std::sort(sorted.begin(), sorted.end());
    if (std::adjacent_find(sorted.begin(), sorted.end()) != sorted.end()) return false;
    known_.clear();
    columns_.assign(names.size(), -1);
    for (size_t at = 0; at < names.size(); ++at) {
        if (!is_utf8(names[at])) return false;
        for (size_t column = 0; column < promoted_.size(); ++column)
            if (names[at] == View{promoted_[column].name.data(), promoted_[column].name.size()})
                columns_[at] = static_cast<int>(column);
    }
    known_ = names;
    return true;
}

void Columns::promote(size_t column, const Scalar& value) {
    Scalar& into = promotions_[promotions_.size() - promoted_.size() + column];
    if (value.form == promoted_[column].form) {
        into = value;
    } else if (promoted_[column].form == FLOAT && value.form == INTEGER && value.whole >= -EXACT && value.whole <= EXACT) {
        into.form = FLOAT;
        into.real = static_cast<double>(value.whole);
    } else {
        complete_[column] = false;
    }
}

bool Columns::read_body(View body, Counts& counts) {
    Cursor cursor(body);
    unsigned tag;
    uint64_t count, items;
    if (!cursor.byte(tag) || !counted(cursor, tag, 0x80, 0xDE, count) || !cursor.has(static_cast<size_t>(count))) return false;
    struct Found {
        Scalar value;
        bool is_list;
    };
    names_.clear();
    std::array<Found, 32> first;
    std::vector<Found> more;  // of a body with many attributes
    if (count > first.size()) more.resize(static_cast<size_t>(count) - first.size());
    bool known = count == known_.size();
    for (size_t at = 0; at < count; ++at) {
        View name;
        Found& found = at < first.size() ? first[at] : more[at - first.size()];
        if (!text(cursor, name) || !cursor.byte(tag)) return false;
        names_.push_back(name);
        known = known && name == known_[at];
        found.is_list = counted(cursor, tag, 0x90, 0xDC, items);
        size_t entries = 1;
        if (found.is_list) {
            if (items > LARGEST_INDEX) return false;
            entries = items ? static_cast<size_t>(items) : 1;
            counts.indices += entries;
        } else {
            items = 1;
            if (tag == 0xDC || tag == 0xDD) return false;  // a list that is cut
        }
        counts.entries += entries;
        counts.names += entries * name.size;
        for (; items; --items) {
            Scalar value;
            if (found.is_list && !cursor.byte(tag)) return false;
            if (!scalar(cursor, tag, value)) return false;
            ++counts.values[value.form];
            counts.bytes[value.form] += length(value);
            if (!found.is_list) found.value = value;
        }
    }
    if (!cursor.at_end() || (!known && !names_follow(names_))) return false;
    for (size_t at = 0; at < count; ++at) {
        if (columns_[at] < 0) continue;
        const Found& found = at < first.size() ? first[at] : more[at - first.size()];
        if (found.is_list) complete_[static_cast<size_t>(columns_[at])] = false;
        else promote(static_cast<size_t>(columns_[at]), found.value);
    }
    return true;
}

std::vector<uint32_t> Columns::order() const {
    std::vector<uint32_t> order(rows_.size());
    std::iota(order.begin(), order.end(), 0);
    const size_t width = promoted_.size();
    std::sort(order.begin(), order.end(), [&](uint32_t one, uint32_t other) {
        const Scalar *a = promotions_.data() + one * width, *b = promotions_.data() + other * width;
        for (size_t column = 0; column < width; ++column, ++a, ++b) {
            if (a->form != b->form) return b->form == NO_VALUE;  // null comes last
            if (a->form == NO_VALUE) continue;
            if (is_text(a->form)) {
                const int sign = compare(a->bytes, b->bytes);
                if (sign) return sign < 0;
            } else if (a->form == FLOAT) {
                if (a->real != b->real) return a->real < b->real;
            } else if (a->whole != b->whole) {
                return a->whole < b->whole;
            }
        }
        return rows_[one].seq != rows_[other].seq ? rows_[one].seq < rows_[other].seq : one < other;
    });
    return order;
}

std::vector<Buffers> Columns::take() {
    const std::vector<uint32_t> sorted = order();
    const size_t count = rows_.size();
    std::vector<Buffers> columns;
    const auto texts = [&](const auto& of) {
        size_t size = 0;
        for (const Row& row : rows_) size += of(row).size;
        Column column(BYTES, count, count, size);
        Scalar value;
        value.form = BYTES;
        for (size_t at = 0; at < count; ++at) {
            value.bytes = of(rows_[sorted[at]]);
            column.put(at, value);
        }
        columns.push_back(column.end());
    };
    const auto numbers = [&](int64_t Row::*field) {
        Buffers written;
        written.values.resize(count * sizeof(int64_t));
        for (size_t at = 0; at < count; ++at) write(written.values, at, rows_[sorted[at]].*field);
        columns.push_back(std::move(written));
    };
    texts([&](const Row&) { return View{origin_.data(), origin_.size()}; });
    numbers(&Row::epoch);
    numbers(&Row::seq);
    texts([](const Row& row) { return row.publisher; });
    numbers(&Row::publisher_seq);
    numbers(&Row::published_at);
    numbers(&Row::graph_epoch);
    const auto living = std::count_if(rows_.begin(), rows_.end(), [](const Row& row) { return row.ttl >= 0; });
    Column lives(INTEGER, count, static_cast<size_t>(living), 0);
    Scalar life;
    life.form = INTEGER;
    Buffers qualities;
    qualities.values.resize(count);
    for (size_t at = 0; at < count; ++at) {
        const Row& row = rows_[sorted[at]];
        qualities.values[at] = static_cast<char>(row.quality);
        life.whole = row.ttl;
        if (row.ttl >= 0) lives.put(at, life);
    }
    columns.push_back(lives.end());
    columns.push_back(std::move(qualities));
    texts([](const Row& row) { return row.routes; });
    for (size_t promoted = 0; promoted < promoted_.size(); ++promoted) {
        const auto value = [&](size_t row) -> const Scalar& { return promotions_[row * promoted_.size() + promoted]; };
        size_t present = 0, size = 0;
        for (size_t row = 0; row < count; ++row) {
            if (value(row).form == NO_VALUE) continue;
            ++present;
            size += length(value(row));
        }
        Column column(promoted_[promoted].form, count, present, size);
        for (size_t at = 0; at < count; ++at) column.put(at, value(sorted[at]));
        columns.push_back(column.end());
    }
    write_attributes(sorted, columns);
    if (with_body_) texts([](const Row& row) { return row.body; });
    return columns;
}

// The bodies were read when they were added, so they can be read.
void Columns::write_attributes(const std::vector<uint32_t>& order, std::vector<Buffers>& into) const {
    const size_t count = counts_.entries;
    Buffers starts, indices;
    starts.values.resize((order.size() + 1) * sizeof(int32_t));
    indices.is_null = counts_.indices == 0;
    indices.nulls = count - counts_.indices;
    if (!indices.is_null) {
        indices.values.resize(count * sizeof(int16_t));
        if (indices.nulls) indices.valid = bits(count);
    }
    Column names(BYTES, count, count, counts_.names);
    std::vector<Column> values;
    for (uint8_t form = 0; form < FORMS; ++form)
        values.emplace_back(form, count, counts_.values[form], counts_.bytes[form]);
    size_t entry = 0;
    Scalar name;
    name.form = BYTES;
    const auto indexed = [&](int16_t index) {
        if (indices.is_null) return;
        if (indices.nulls) set(indices.valid, entry);
        write(indices.values, entry, index);
    };
    for (size_t at = 0; at < order.size(); ++at) {
        write(starts.values, at, static_cast<int32_t>(entry));
        Cursor cursor(rows_[order[at]].body);
        unsigned tag = 0;
        uint64_t left = 0, items = 0;
        if (!cursor.byte(tag) || !counted(cursor, tag, 0x80, 0xDE, left)) break;
        for (; left; --left) {
            if (!text(cursor, name.bytes) || !cursor.byte(tag)) break;
            const bool is_list = counted(cursor, tag, 0x90, 0xDC, items);
            for (uint64_t index = 0; entry < count && (!is_list || index < items); ++index) {
                Scalar value;
                if (is_list && !cursor.byte(tag)) break;
                if (!scalar(cursor, tag, value)) break;
                names.put(entry, name);
                values[value.form].put(entry, value);
                if (is_list) indexed(static_cast<int16_t>(index));
                ++entry;
                if (!is_list) break;
            }
            if (is_list && items == 0 && entry < count) {
                names.put(entry, name);
                indexed(-1);
                ++entry;
            }
        }
    }
    write(starts.values, order.size(), static_cast<int32_t>(entry));
    into.push_back(std::move(starts));
    into.push_back(names.end());
    into.push_back(std::move(indices));
    for (Column& column : values) into.push_back(column.end());
}

}  // namespace tidings

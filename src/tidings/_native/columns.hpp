// Publications of a log as columns, laid out as Arrow lays them out: for the archive.
//
// Theory of operation. A batch of the log, which is an array of envelopes, is added whole or not at all: whatever is odd
// in it is left to Python, batch by batch. Adding reads everything once: it checks, notes where each body is and what its
// promoted attributes are, and counts what the column of all attributes will hold. Taking sorts the rows, reads the
// bodies again in that order and writes each column once, into memory of the size that was counted. So nothing is moved
// after it has been written, and a column without values costs nothing.
//
// The rows point into the batches, which must outlive them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "value.hpp"

namespace tidings {

// What a value is, in the order of the fields that hold it (as_bool, as_int, ...).
enum Form : uint8_t { BOOLEAN, INTEGER, FLOAT, TEXT, BYTES, TIME, PLACE };
constexpr size_t FORMS = 7;
constexpr uint8_t NO_VALUE = 255;

struct Scalar {
    uint8_t form = NO_VALUE;
    union {
        int64_t whole;  // BOOLEAN, INTEGER, TIME
        double real;    // FLOAT
    };
    View bytes{nullptr, 0};  // TEXT, BYTES, PLACE: without the slash in front

    Scalar() : whole(0) {}
};

struct PromotedColumn {
    std::string name;
    uint8_t form;
};

// The buffers of an Arrow array. Without any of them, all of it is null.
struct Buffers {
    bool is_null = false;
    size_t nulls = 0;
    std::string valid;  // bits; empty if nothing is null
    std::string values;  // numbers, bits, or where each text begins
    std::optional<std::string> data;  // of texts
};

class Columns {
public:
    static constexpr size_t MOST = size_t{1} << 30;  // bytes of one column: offsets have 31 bits

    Columns(std::string origin, std::vector<PromotedColumn> promoted, bool with_body);

    struct Added {
        size_t rows, bodies;  // bytes of bodies
        size_t spread;        // bytes of names, one for each element of a list
    };

    // Whether this batch was added. If not, nothing has changed.
    bool add(View batch, Added& added);

    // All rows, sorted by promoted attributes, then by number: the columns of the identity but for the scope, the encoded
    // routes, the promoted columns, where the lists of attributes begin, their names, indices and values, and the bodies.
    std::vector<Buffers> take();

    size_t rows() const { return rows_.size(); }
    bool is_complete(size_t promoted) const { return complete_[promoted]; }
    void clear();

private:
    struct Row {
        View publisher, routes, body;
        int64_t epoch, seq, publisher_seq, published_at, graph_epoch, ttl;  // ttl: -1 if there is none
        uint8_t quality;
    };
    struct Counts {
        std::array<size_t, FORMS> values{}, bytes{};
        size_t entries = 0, names = 0, indices = 0;
    };

    bool read(class Cursor& cursor);
    bool read_identity(Cursor& cursor, Row& row);
    bool read_body(View body, Counts& counts);
    bool names_follow(const std::vector<View>& names);
    void promote(size_t column, const Scalar& value);
    std::vector<uint32_t> order() const;
    void write_attributes(const std::vector<uint32_t>& order, std::vector<Buffers>& into) const;

    const std::string origin_;
    const std::vector<PromotedColumn> promoted_;
    const bool with_body_;
    std::vector<Row> rows_;
    std::vector<Scalar> promotions_;  // for each row, one for each promoted column
    std::vector<bool> complete_;
    Counts counts_;
    size_t kept_ = 0;           // bytes of batches
    std::vector<View> known_;   // the names of the last body, in order, which are texts and differ
    std::vector<int> columns_;  // for each of these, its promoted column, or -1
    std::vector<View> names_;   // of the body at hand
};

}  // namespace tidings

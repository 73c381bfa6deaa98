// A segment: conjunctions that no single test tells apart, sifted all at once by the numbers that they want.
//
// Theory of operation
// -------------------
// Each conjunction has a slot, that is, a bit. For each attribute that some of them want to be in a range, a column cuts
// the line of numbers into cells, at values that the sampled traffic is evenly spread over. Each cell knows who may pass
// there: whose range has something in it. The bits of all columns are joined by AND, and whoever is left is tested in
// full. So a cell may let too many pass, never too few, and cuts that do not fit the traffic any more cost time only.
#pragma once

#include <vector>

#include "conjunction.hpp"
#include "reading.hpp"
#include "sample.hpp"

namespace tidings {

class Segment {
public:
    static constexpr uint32_t SLOTS = 4096;
    static constexpr size_t COLUMNS = 32;  // the most attributes
    static constexpr size_t CELLS = 64;

    // Whether a test says something about cells.
    static bool counts(const Test& test) {
        return !test.negated && test.is_numeric() && (test.op == Op::Range || test.op == Op::Equal);
    }

    bool has_room(const Conjunction& conjunction) const;
    void add(Conjunction* conjunction, const Sample& sample);
    void remove(Conjunction* conjunction);
    bool empty() const { return used_ == 0; }

    // Appends who may pass.
    void sift(const Reading& reading, std::vector<std::pair<const Conjunction*, uint32_t>>& met);

private:
    struct Column {
        uint32_t attribute;
        Kind kind;
        uint32_t count;             // of members
        std::vector<double> cuts;   // a value is in the cell whose number is that of the cuts up to it
        std::vector<uint64_t> members;
        std::vector<std::vector<uint64_t>> cells;

        size_t cell(double near) const;
    };

    Column* column(const Test& test);
    void grow(size_t words);

    std::vector<Conjunction*> slots_;
    std::vector<uint32_t> free_;
    std::vector<uint64_t> alive_, left_;
    std::vector<Column> columns_;
    uint32_t used_ = 0;
};

}  // namespace tidings

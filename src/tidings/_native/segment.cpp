#include "segment.hpp"

#include <algorithm>

namespace tidings {

namespace {

inline int lowest_bit(uint64_t bits) {
#if defined(__GNUC__)
    return __builtin_ctzll(bits);
#else
    int at = 0;
    while (!(bits >> at & 1)) ++at;
    return at;
#endif
}

}  // namespace

size_t Segment::Column::cell(double near) const {
    return static_cast<size_t>(std::upper_bound(cuts.begin(), cuts.end(), near) - cuts.begin());
}

Segment::Column* Segment::column(const Test& test) {
    for (Column& one : columns_)
        if (one.attribute == test.attribute && one.kind == test.kind) return &one;
    return nullptr;
}

bool Segment::has_room(const Conjunction& conjunction) const {
    if (used_ == SLOTS) return false;
    size_t columns = columns_.size();
    for (uint32_t at = 0; at < conjunction.count; ++at) {
        const Test& test = conjunction.tests()[at];
        columns += counts(test) && const_cast<Segment*>(this)->column(test) == nullptr;
    }
    return columns <= COLUMNS;
}

void Segment::grow(size_t words) {
    alive_.resize(words, 0);
    left_.resize(words, 0);
    for (Column& one : columns_) {
        one.members.resize(words, 0);
        for (auto& cell : one.cells) cell.resize(words, 0);
    }
}

void Segment::add(Conjunction* conjunction, const Sample& sample) {
    if (free_.empty()) {
        free_.push_back(static_cast<uint32_t>(slots_.size()));
        slots_.push_back(nullptr);
        if (slots_.size() > alive_.size() * 64) grow(std::max<size_t>(1, alive_.size() * 2));
    }
    const uint32_t slot = free_.back();
    free_.pop_back();
    const size_t word = slot / 64;
    const uint64_t bit = 1ull << (slot % 64);
    for (uint32_t at = 0; at < conjunction->count; ++at) {
        const Test& test = conjunction->tests()[at];
        if (!counts(test)) continue;
        Column* column = this->column(test);
        if (column == nullptr) {
            columns_.push_back({test.attribute, test.kind, 0, sample.cuts(test.attribute, test.kind, CELLS - 1), {}, {}});
            column = &columns_.back();
            column->members.resize(alive_.size(), 0);
            column->cells.resize(column->cuts.size() + 1, std::vector<uint64_t>(alive_.size(), 0));
        }
        const size_t first = column->cell(test.low.near);
        const size_t last = column->cell(test.op == Op::Equal ? test.low.near : test.high.near);
        const bool again = column->members[word] & bit;  // two ranges on one attribute: both must let it pass
        for (size_t cell = 0; cell < column->cells.size(); ++cell) {
            const bool inside = first <= cell && cell <= last;
            if (again && !inside) column->cells[cell][word] &= ~bit;
            if (!again && inside) column->cells[cell][word] |= bit;
        }
        column->members[word] |= bit;
        column->count += !again;
    }
    slots_[slot] = conjunction;
    alive_[word] |= bit;
    ++used_;
    conjunction->slot = slot;
}

void Segment::remove(Conjunction* conjunction) {
    const uint32_t slot = conjunction->slot;
    const size_t word = slot / 64;
    const uint64_t bit = 1ull << (slot % 64);
    for (size_t at = columns_.size(); at-- > 0;) {
        Column& column = columns_[at];
        if (!(column.members[word] & bit)) continue;
        column.members[word] &= ~bit;
        for (auto& cell : column.cells) cell[word] &= ~bit;
        if (!--column.count) columns_.erase(columns_.begin() + static_cast<std::ptrdiff_t>(at));
    }
    alive_[word] &= ~bit;
    slots_[slot] = nullptr;
    free_.push_back(slot);
    --used_;
}

void Segment::sift(const Reading& reading, std::vector<std::pair<const Conjunction*, uint32_t>>& met) {
    const size_t words = alive_.size();
    uint64_t* left = left_.data();
    std::copy(alive_.begin(), alive_.end(), left);
    for (const Column& column : columns_) {
        const Value& value = reading[column.attribute];
        if (value.kind == Kind::List) continue;  // its elements may pass the two bounds
        const uint64_t* members = column.members.data();
        if (value.kind != column.kind) {
            for (size_t at = 0; at < words; ++at) left[at] &= ~members[at];
            continue;
        }
        const uint64_t* cell = column.cells[column.cell(value.number.near)].data();
        for (size_t at = 0; at < words; ++at) left[at] &= cell[at] | ~members[at];
    }
    for (size_t at = 0; at < words; ++at) {
        for (uint64_t bits = left[at]; bits; bits &= bits - 1) {
            const Conjunction* one = slots_[at * 64 + static_cast<size_t>(lowest_bit(bits))];
#if defined(__GNUC__)
            __builtin_prefetch(one->tests());
            __builtin_prefetch(reinterpret_cast<const char*>(one->tests()) + 64);
#endif
            met.emplace_back(one, one->filter);
        }
    }
}

}  // namespace tidings

// What the values of one kind of one attribute lead to: bags of conjunctions, by all the ways in use.
//
//     Value            the value itself
//     Prefix, Suffix   its first or last so many bytes, for each length in use
//     Gram             any three of its bytes in a row, or two, or one
//     Within           the first so many parts of the path, for each depth in use
//     Grid             the cell in which a number lies, for each width in use
//     Above, Below     all bounds that it is beyond, in order
//     Present          that it is there
#pragma once

#include <cmath>
#include <map>
#include <unordered_map>

#include "conjunction.hpp"

namespace tidings {

// The cell of a grid in which a number lies. Rounding keeps the order, which is all that a grid needs.
inline Number cell(double near, double width) { return {std::floor(near / width) + 0.0, 0}; }

struct Identity {
    size_t operator()(uint64_t key) const { return static_cast<size_t>(key); }
};

class Probe {
public:
    static constexpr size_t MAX_SIZES = 24;    // lengths, depths or widths in use of one way
    static constexpr size_t MAX_KEYS = 32;     // bags that a conjunction hangs in
    static constexpr size_t LONGEST_GRAM = 3;  // bytes
    static constexpr size_t GRAMS = 1 << 12;   // as many as `bits_of` tells apart

    void hang(Conjunction* conjunction);
    void unhang(Conjunction* conjunction);
    bool has_room(How how, double size) const;

    // Calls `meet(bag)` for each bag that the value leads to; `present` is left to the caller.
    template <typename Meet>
    void lead(const Value& value, bool in_list, Meet meet) const;

    Bag present;
    Bag grids;  // all that hang in cells: on a list, the two bounds may be passed by different elements
    std::unordered_map<uint64_t, uint32_t, Identity> census;  // operands of equalities, whoever hangs where
    bool empty() const { return sizes_.empty() && !values_ && present.empty() && census.empty() && ladders_empty(); }

    static uint64_t key_of(How how, double size, View bytes);
    static uint64_t key_of(How how, double size, Number number);
    static View path_prefix(View path, size_t depth);  // of size 0 if it is not so deep
    static bool cells_of(const Test& range, double& width, std::vector<double>& cells);

private:
    struct Size {
        How how;
        double size;
        uint32_t count;
    };
    bool ladders_empty() const { return above_.empty() && below_.empty(); }
    std::vector<uint64_t> keys(const Conjunction& conjunction) const;
    static View part_of(const Conjunction& conjunction);
    // Twelve bits of a gram: most grams of a text lead nowhere, and this tells it without a hash.
    static size_t bits_of(const char* gram, size_t size) {
        uint32_t word = 0;
        for (size_t at = 0; at < size; ++at) word = word << 8 | static_cast<unsigned char>(gram[at]);
        return word * 0x9E3779B1u >> 20;
    }
    template <typename Meet>
    void meet_key(uint64_t key, Meet meet) const {
        const auto at = bags_.find(key);
        if (at != bags_.end()) meet(at->second);
    }

    std::unordered_map<uint64_t, Bag, Identity> bags_;
    std::vector<Size> sizes_;
    std::vector<uint32_t> grams_;  // how many hang by a gram of these bits; not empty as long as there are any
    uint32_t values_ = 0;
    std::map<Number, Bag> above_, below_;
};

template <typename Meet>
void Probe::lead(const Value& value, bool in_list, Meet meet) const {
    if (values_) {
        meet_key(value.is_numeric() ? key_of(How::Value, 0, value.number) : key_of(How::Value, 0, value.bytes), meet);
    }
    for (const Size& one : sizes_) {
        const auto size = static_cast<size_t>(one.how == How::Grid ? 0 : one.size);
        switch (one.how) {
            case How::Prefix:
                if (value.bytes.size >= size) meet_key(key_of(one.how, one.size, View{value.bytes.at, size}), meet);
                break;
            case How::Suffix:
                if (value.bytes.size >= size)
                    meet_key(key_of(one.how, one.size, View{value.bytes.at + (value.bytes.size - size), size}), meet);
                break;
            case How::Gram:
                for (size_t at = 0; at + size <= value.bytes.size; ++at)
                    if (grams_[bits_of(value.bytes.at + at, size)])
                        meet_key(key_of(one.how, one.size, View{value.bytes.at + at, size}), meet);
                break;
            case How::Within: {
                const View path = path_prefix(value.bytes, size);
                if (path.size) meet_key(key_of(one.how, one.size, path), meet);
                break;
            }
            case How::Grid:
                if (!in_list) meet_key(key_of(one.how, one.size, cell(value.number.near, one.size)), meet);
                break;
            default: break;
        }
    }
    if (!above_.empty())
        for (auto at = above_.begin(); at != above_.end() && !(value.number < at->first); ++at) meet(at->second);
    if (!below_.empty())
        for (auto at = below_.rbegin(); at != below_.rend() && !(at->first < value.number); ++at) meet(at->second);
}

}  // namespace tidings

#include "probe.hpp"

#include "text.hpp"

namespace tidings {

namespace {
constexpr double SMALLEST_CELL = -64;  // the binary exponent of the finest grid
}

uint64_t Probe::key_of(How how, double size, View bytes) {
    return hashed(bytes, static_cast<uint64_t>(how) << 32 | static_cast<uint64_t>(size));
}

uint64_t Probe::key_of(How how, double size, Number number) {
    uint64_t word;
    std::memcpy(&word, &size, 8);
    return hashed(number, word + static_cast<uint64_t>(how));
}

View Probe::path_prefix(View path, size_t depth) {
    size_t parts = 0;
    for (size_t at = 0; at < path.size; ++at)
        if (path.at[at] == '/' && ++parts == depth) return {path.at, at};
    return {path.at, path.size && parts + 1 == depth ? path.size : 0};
}

bool Probe::cells_of(const Test& range, double& width, std::vector<double>& cells) {
    const double low = range.low.near, high = range.high.near, wide = high - low;
    if (!(wide >= 0) || !std::isfinite(wide)) return false;  // no scalar passes an inverted range, but a list may
    int exponent;
    std::frexp(wide / 4, &exponent);
    exponent += exponent & 1;
    width = std::ldexp(1.0, wide == 0 || exponent < SMALLEST_CELL ? static_cast<int>(SMALLEST_CELL) : exponent);
    const double last = cell(high, width).near;
    cells.assign(1, cell(low, width).near);
    while (cells.back() < last && cells.size() < MAX_KEYS) cells.push_back(cells.back() + 1);
    return cells.back() == last;  // else so far from zero that doubles cannot count cells
}

std::vector<uint64_t> Probe::keys(const Conjunction& conjunction) const {
    const Test& test = conjunction.pivotal();
    const char* operands = conjunction.operands();
    const How how = conjunction.how;
    const double size = conjunction.size;
    std::vector<uint64_t> keys;
    if (how == How::Grid) {
        double width;
        std::vector<double> cells;
        cells_of(test, width, cells);
        for (const double one : cells) keys.push_back(key_of(how, width, Number{one, 0}));
    } else if (how == How::Value && test.op == Op::In) {
        for (uint32_t n = 0; n < test.count; ++n)
            keys.push_back(test.is_numeric() ? key_of(how, size, number_in(test, operands, n))
                                             : key_of(how, size, bytes_in(test, operands, n)));
    } else if (how == How::Value) {
        keys.push_back(test.is_numeric() ? key_of(how, size, test.low)
                                         : key_of(how, size, text_of(operands, test.first)));
    } else {
        keys.push_back(key_of(how, size, part_of(conjunction)));
    }
    return keys;
}

View Probe::part_of(const Conjunction& conjunction) {
    const Test& test = conjunction.pivotal();
    const How how = conjunction.how;
    View part = text_of(conjunction.operands(), test.first);
    if (test.op == Op::Like)
        part = how == How::Prefix ? Pattern::head(part) : how == How::Suffix ? Pattern::tail(part) : Pattern::longest(part);
    if (how == How::Gram) part.size = static_cast<size_t>(conjunction.size);
    return part;
}

bool Probe::has_room(How how, double size) const {
    size_t same = 0;
    for (const Size& one : sizes_) {
        if (one.how == how && one.size == size) return true;
        same += one.how == how;
    }
    return same < MAX_SIZES;
}

void Probe::hang(Conjunction* conjunction) {
    const How how = conjunction->how;
    if (how == How::Present) return present.add(conjunction);
    if (how == How::Above) return above_[conjunction->pivotal().low].add(conjunction);
    if (how == How::Below) return below_[conjunction->pivotal().high].add(conjunction);
    for (const uint64_t key : keys(*conjunction)) {
        bags_[key].add(conjunction);
        conjunction->hooks.back().key = key;
    }
    if (how == How::Value) {
        ++values_;
        return;
    }
    if (how == How::Grid) grids.add(conjunction);
    if (how == How::Gram) {
        if (grams_.empty()) grams_.resize(GRAMS);
        const View gram = part_of(*conjunction);
        ++grams_[bits_of(gram.at, gram.size)];
    }
    for (Size& one : sizes_)
        if (one.how == how && one.size == conjunction->size) {
            ++one.count;
            return;
        }
    sizes_.push_back({how, conjunction->size, 1});
}

void Probe::unhang(Conjunction* conjunction) {
    const How how = conjunction->how;
    while (!conjunction->hooks.empty()) {
        const Conjunction::Hook hook = conjunction->hooks.back();
        hook.bag->remove(hook.at);
        conjunction->hooks.pop_back();
        if (!hook.bag->empty() || hook.bag == &present || hook.bag == &grids) continue;
        if (how == How::Above) above_.erase(conjunction->pivotal().low);
        else if (how == How::Below) below_.erase(conjunction->pivotal().high);
        else bags_.erase(hook.key);
    }
    if (how == How::Value) --values_;
    if (how == How::Gram) {
        const View gram = part_of(*conjunction);
        --grams_[bits_of(gram.at, gram.size)];
    }
    for (size_t at = 0; at < sizes_.size(); ++at) {
        if (sizes_[at].how != how || sizes_[at].size != conjunction->size) continue;
        if (!--sizes_[at].count) sizes_.erase(sizes_.begin() + static_cast<std::ptrdiff_t>(at));
        break;
    }
    if (how != How::Gram) return;
    for (const Size& one : sizes_)
        if (one.how == How::Gram) return;
    grams_ = std::vector<uint32_t>();  // no gram is left, and nobody asks
}

}  // namespace tidings

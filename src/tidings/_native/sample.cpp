#include "sample.hpp"

#include <algorithm>

namespace tidings {

void Sample::observe(const Reading& reading) {
    if (reading.weight > HEAVIEST) return;
    const size_t at = seen_ % SIZE;
    entries_.reserve(SIZE);  // so that nobody moves, and values stay where their bytes are
    if (entries_.size() <= at) entries_.resize(at + 1);
    Entry& entry = entries_[at];
    entry.serial = ++seen_;
    entry.values.clear();
    entry.bytes.clear();
    for (const uint32_t attribute : reading.present) {
        Value value = reading[attribute];
        if (value.kind == Kind::List) {
            value.list = {nullptr, 0};  // that it is there is all that is kept of a list
        } else if (!value.is_numeric()) {
            entry.bytes.append(value.bytes.at, value.bytes.size);
        }
        entry.values.emplace_back(attribute, value);
    }
    const char* bytes = entry.bytes.data();
    for (auto& [attribute, value] : entry.values) {
        if (value.kind == Kind::List || value.is_numeric()) continue;
        value.bytes.at = bytes;
        bytes += value.bytes.size;
    }
}

const Value* Sample::Entry::find(uint32_t attribute) const {
    for (const auto& [number, value] : values)
        if (number == attribute) return &value;
    return nullptr;
}

template <typename Passes>
double Sample::share(uint64_t born, Passes passes) const {
    size_t asked = 0, passed = 0;
    for (const Entry& entry : entries_) {
        if (entry.serial <= born) continue;
        ++asked;
        passed += passes(entry);
    }
    return asked < ENOUGH ? -1 : static_cast<double>(passed) / static_cast<double>(asked);
}

double Sample::passing(const Test& test, const char* operands, uint64_t born) const {
    return share(born, [&](const Entry& entry) {
        const Value* value = entry.find(test.attribute);
        return value && (value->kind == Kind::List || passes(test, operands, *value));
    });
}

double Sample::present(uint32_t attribute, Kind kind, uint64_t born) const {
    return share(born, [&](const Entry& entry) {
        const Value* value = entry.find(attribute);
        return value && (kind == Kind::Missing || value->kind == kind || value->kind == Kind::List);
    });
}

std::vector<double> Sample::cuts(uint32_t attribute, Kind kind, size_t most) const {
    std::vector<double> values, cuts;
    for (const Entry& entry : entries_) {
        const Value* value = entry.find(attribute);
        if (value && value->kind == kind && value->is_numeric()) values.push_back(value->number.near);
    }
    std::sort(values.begin(), values.end());
    for (size_t n = 1; n <= most && !values.empty(); ++n) {
        const double cut = values[n * values.size() / (most + 1)];
        if (cuts.empty() || cuts.back() < cut) cuts.push_back(cut);
    }
    return cuts;
}

}  // namespace tidings

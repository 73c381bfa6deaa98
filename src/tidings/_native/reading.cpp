#include "reading.hpp"

namespace tidings {

uint32_t Names::acquire(const std::string& name) {
    const auto at = numbers_.find(name);
    if (at != numbers_.end()) {
        ++uses_[at->second];
        return at->second;
    }
    if (free_.empty()) {
        names_.emplace_back();
        uses_.push_back(0);
        free_.reserve(names_.size());  // so that `release` needs no memory
        free_.push_back(static_cast<uint32_t>(names_.size() - 1));
    }
    const uint32_t number = free_.back();
    names_[number] = name;
    numbers_.emplace(name, number);
    free_.pop_back();
    uses_[number] = 1;
    return number;
}

bool Names::release(uint32_t number) {
    if (--uses_[number]) return false;
    numbers_.erase(names_[number]);
    names_[number].clear();
    free_.push_back(number);
    return true;
}

void Reading::begin(size_t names) {
    ++stamp_;
    if (slots_.size() < names) slots_.resize(names);
    present.clear();
    items_.clear();
    lists_.clear();
    weight = 0;
}

bool Reading::put(uint32_t attribute, const Value& value) {
    Slot& slot = slots_[attribute];
    if (slot.stamp == stamp_) return false;
    slot.stamp = stamp_;
    slot.value = value;
    present.push_back(attribute);
    return true;
}

bool Reading::put_list(uint32_t attribute) {
    Value list;
    list.kind = Kind::List;
    list.list = {nullptr, items_.size() - first_item_};
    if (!put(attribute, list)) return false;
    lists_.push_back(attribute);
    lists_.push_back(static_cast<uint32_t>(first_item_));
    return true;
}

void Reading::end() {
    for (size_t at = 0; at < lists_.size(); at += 2)
        slots_[lists_[at]].value.list.items = items_.data() + lists_[at + 1];
}

}  // namespace tidings

// A notification as it was read: the values of those attributes that some filter names.
#pragma once

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "value.hpp"

namespace tidings {

constexpr size_t MAX_BODY = 1048576;
constexpr size_t MAX_ATTRIBUTES = 256;
constexpr size_t MAX_NAME = 256;  // bytes here, characters in Python, which gets what is longer
constexpr size_t MAX_LIST = 1024;
constexpr size_t MAX_DEPTH = 32;
constexpr size_t MAX_PATH = 1024;  // bytes here, characters in Python

// The names that filters use, each with a small number as long as one of them does.
class Names {
public:
    static constexpr uint32_t UNKNOWN = UINT32_MAX;

    uint32_t acquire(const std::string& name);
    bool release(uint32_t number);  // whether it was the last use
    uint32_t find(View name) const;
    bool is(uint32_t number, View name) const { return View{names_[number].data(), names_[number].size()} == name; }
    size_t size() const { return names_.size(); }
    size_t used() const { return numbers_.size(); }

private:
    std::unordered_map<std::string, uint32_t> numbers_;
    std::vector<std::string> names_;
    std::vector<uint32_t> uses_;
    std::vector<uint32_t> free_;
};

inline uint32_t Names::find(View name) const {
    if (numbers_.empty()) return UNKNOWN;
    static thread_local std::string key;  // keeps its memory, so a lookup allocates nothing
    key.assign(name.at, name.size);
    const auto at = numbers_.find(key);
    return at == numbers_.end() ? UNKNOWN : at->second;
}

class Reading {
public:
    std::vector<uint32_t> present;  // the attributes that it has, by number, in order
    size_t weight = 0;              // bytes of its texts and the like, about

    void begin(size_t names);
    bool put(uint32_t attribute, const Value& value);  // false: it is there already
    void begin_list() { first_item_ = items_.size(); }
    void put_item(const Value& value) { items_.push_back(value); }
    bool put_list(uint32_t attribute);
    void end();  // lists have their place now
    bool has_lists() const { return !lists_.empty(); }

    const Value& operator[](uint32_t attribute) const {
        return slots_[attribute].stamp == stamp_ ? slots_[attribute].value : missing_;
    }

private:
    struct Slot {
        uint64_t stamp = 0;
        Value value;
    };
    uint64_t stamp_ = 0;
    std::vector<Slot> slots_;
    std::vector<Value> items_;
    std::vector<uint32_t> lists_;
    size_t first_item_ = 0;
    Value missing_;
};

}  // namespace tidings

// A sample of the latest notifications, by which it is estimated how many pass a test.
#pragma once

#include <string>
#include <vector>

#include "reading.hpp"
#include "test.hpp"

namespace tidings {

class Sample {
public:
    static constexpr size_t SIZE = 256;
    static constexpr size_t ENOUGH = 16;     // so many notifications say something
    static constexpr size_t HEAVIEST = 4096;  // bytes of a notification that is kept

    void observe(const Reading& reading);
    uint64_t seen() const { return seen_; }

    // The share of those since `born` that pass the test (or have a value of its kind); below 0: nobody can tell.
    double passing(const Test& test, const char* operands, uint64_t born) const;
    double present(uint32_t attribute, Kind kind, uint64_t born) const;

    // Up to so many different numbers that cut the values of an attribute into parts of about the same size.
    std::vector<double> cuts(uint32_t attribute, Kind kind, size_t most) const;

private:
    struct Entry {
        uint64_t serial = 0;
        std::vector<std::pair<uint32_t, Value>> values;
        std::string bytes;
        const Value* find(uint32_t attribute) const;
    };
    template <typename Passes>
    double share(uint64_t born, Passes passes) const;

    std::vector<Entry> entries_;
    uint64_t seen_ = 0;
};

}  // namespace tidings

// A conjunction: its tests with their operands, and the bags that it hangs in.
#pragma once

#include <memory>
#include <vector>

#include "test.hpp"

namespace tidings {

class Conjunction;

// A range of numbers that a conjunction wants, looked at before the conjunction itself: most are refused by it, and
// never touched. It is rounded outwards, so it refuses nobody who passes.
struct Guard {
    static constexpr uint32_t NONE = UINT32_MAX;
    float low = 0, high = 0;
    uint32_t attribute = 0;
    Kind kind = Kind::Missing;  // none

    Guard() = default;
    explicit Guard(const Test& test);
};

// Conjunctions that one way leads to. Each knows its place, so it is taken out at once.
class Bag {
public:
    struct Entry {
        Conjunction* conjunction;
        float low[2], high[2];
        uint32_t attribute[2];
        Kind kind[2];
        uint16_t hook;  // which of the conjunction's hooks is the one in here
        uint32_t filter;
    };
    std::vector<Entry> entries;

    void add(Conjunction* conjunction);
    void remove(uint32_t at);
    bool empty() const { return entries.empty(); }
};

// The ways to look a conjunction up.
enum class How : uint8_t { Always, Value, Prefix, Suffix, Gram, Within, Grid, Above, Below, Present, Exists, Segment };

// One block of memory: this, the tests, and the bytes of their operands.
class Conjunction {
public:
    struct Hook {
        Bag* bag;
        uint32_t at;
        uint64_t key;  // in the table of the bag
    };
    struct Delete {
        void operator()(Conjunction* conjunction) const;
    };
    using Owned = std::unique_ptr<Conjunction, Delete>;

    static Owned make(const std::vector<Test>& tests, View operands);

    std::vector<Hook> hooks;
    double size = 0;      // of its way: a length, a depth, the width of a cell
    uint32_t listed = 0;  // its place among all
    uint32_t filter = 0;  // the number of the filter that it belongs to
    uint32_t pivot = 0;   // the test by which it is looked up
    uint32_t slot = 0;    // in its segment
    uint32_t guards[2] = {Guard::NONE, Guard::NONE};  // the tests that guard it
    const uint32_t count;                             // of its tests
    class Segment* segment = nullptr;
    How how = How::Always;
    bool asks = false;  // whether one of its tests is somebody else's business

    Test* tests() { return reinterpret_cast<Test*>(this + 1); }
    const Test* tests() const { return reinterpret_cast<const Test*>(this + 1); }
    const char* operands() const { return reinterpret_cast<const char*>(tests() + count); }
    const Test& pivotal() const { return tests()[pivot]; }

private:
    explicit Conjunction(uint32_t count) : count(count) {}
    ~Conjunction() = default;
};

// What one key wants: any of its conjunctions.
struct Filter {
    void* key = nullptr;
    void* source = nullptr;  // the filter as Python knows it
    bool open = false;       // only its source can say what it passes
    std::vector<Conjunction::Owned> conjunctions;
};

}  // namespace tidings

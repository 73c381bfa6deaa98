// The index: which of many conjunctions a notification passes.
//
// Theory of operation
// -------------------
// A conjunction hangs under one of its tests, its pivot: the one that the fewest notifications pass among those that a
// value leads to (`probe.hpp`). A notification that fails the pivot never comes near it, as far as hashes, cells and
// lengths can tell; whoever is met is tested from the first test to the last. So a way that leads to too many is slow,
// never wrong. Who may pass is gathered first, and then tested: by then it has come closer to the processor. How many pass is estimated from a sample of notifications (`sample.hpp`), and before there are any, from
// the operands of the filters themselves. Where no test is rare, but all the ranges of numbers together are, a conjunction
// gets a slot in a segment instead (`segment.hpp`).
//
// When the sample has grown or changed, all conjunctions are reviewed, a few at each change and each sampled
// notification, and those with a clearly better pivot are moved. Nothing is ever rebuilt.
//
// On a list, each element leads to bags; cells say nothing, since the bounds of a range may be passed by different
// elements, and neither does the kind, since negated tests are passed by lists of anything.
#pragma once

#include "body.hpp"
#include "probe.hpp"
#include "sample.hpp"
#include "segment.hpp"

namespace tidings {

// Answers for tests that only Python can make: 1 passed, 0 not, -1 nobody knows.
class Asked {
public:
    virtual ~Asked() = default;
    virtual int operator()(void* asked) = 0;
};

class Index {
public:
    static constexpr uint32_t PATIENCE = 4;         // so many times rarer is it once no review is due
    static constexpr uint32_t REVIEWS = 4;          // at a sampled match; a change reviews one
    static constexpr double BETTER = 2.0;           // so many times rarer must another pivot be to be worth a move

    // Every `stride`-th match is sampled, and reviews a few.
    explicit Index(uint32_t stride) : stride_(stride), countdown_(stride) {}

    Names names;
    Reading reading;
    BodyReader body;

    void add(Filter* filter, uint32_t number);
    void remove(Filter* filter);
    size_t review(size_t most);
    size_t waiting() const { return due_; }
    size_t conjunctions() const { return all_.size(); }
    size_t always() const { return always_.entries.size(); }
    size_t in_segments() const { return in_segments_; }

    // The numbers of the filters that pass what was read last, each once; false if nobody knows.
    bool match(std::vector<uint32_t>& found, Asked& asked);

private:
    struct Attribute {
        uint64_t born = UINT64_MAX;  // the size of the sample when it was first named
        Bag exists;
        std::unique_ptr<Probe> probes[KINDS];
    };
    struct Way {
        uint32_t pivot;
        How how;
        double size;
        double cost;
        double share = 1;  // of the notifications that pass the test itself
        uint32_t guards[2] = {Guard::NONE, Guard::NONE};
    };

    Attribute& attribute(uint32_t number) { return *attributes_[number]; }
    Probe& probe(const Test& test);
    Segment& segment(const Conjunction& conjunction);
    void settle(Conjunction* conjunction, const Way& way);
    void leave(Conjunction* conjunction);
    Way best(const Conjunction& conjunction);
    Way way(const Conjunction& conjunction, uint32_t at);
    Way ranged(const Conjunction& conjunction, uint32_t at, double share);
    double share(const Test& test, const char* operands, How how);
    void census(const Conjunction& conjunction, int change);
    void observe();
    void gather(const Bag& bag);
    void lead(uint32_t number, const Value& value);
    bool is_guarded(const Bag::Entry& entry, int n) const;
    int judge(const Conjunction& conjunction, Asked& asked) const;

    std::vector<std::unique_ptr<Attribute>> attributes_;  // they stay where they are
    Bag always_;
    std::vector<std::unique_ptr<Segment>> segments_;
    std::vector<Conjunction*> all_;
    std::vector<std::pair<const Conjunction*, uint32_t>> met_;  // who may pass, with the number of the filter
    std::vector<uint64_t> found_;  // by filter, the latest match that found it
    Sample sample_;
    uint64_t matches_ = 0;
    const uint32_t stride_;
    uint32_t countdown_;
    size_t due_ = 0, cursor_ = 0, in_segments_ = 0;
};

}  // namespace tidings

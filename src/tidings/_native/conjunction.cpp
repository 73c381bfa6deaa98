#include "conjunction.hpp"

#include <cmath>
#include <limits>
#include <new>

namespace tidings {

static_assert(alignof(Test) <= alignof(Conjunction) || alignof(Test) <= alignof(double), "tests follow their conjunction");
static_assert(sizeof(Conjunction) % alignof(Test) == 0, "tests follow their conjunction");

Guard::Guard(const Test& test) : attribute(test.attribute), kind(test.kind) {
    constexpr float infinity = std::numeric_limits<float>::infinity();
    const double lowest = test.low.near, highest = test.op == Op::Equal ? test.low.near : test.high.near;
    low = static_cast<float>(lowest);
    if (low > lowest) low = std::nextafter(low, -infinity);
    high = static_cast<float>(highest);
    if (high < highest) high = std::nextafter(high, infinity);
}

void Bag::add(Conjunction* conjunction) {
    Entry entry{};
    for (int n = 0; n < 2; ++n) {
        if (conjunction->guards[n] == Guard::NONE) continue;
        const Guard guard(conjunction->tests()[conjunction->guards[n]]);
        entry.low[n] = guard.low;
        entry.high[n] = guard.high;
        entry.attribute[n] = guard.attribute;
        entry.kind[n] = guard.kind;
    }
    entry.conjunction = conjunction;
    entry.filter = conjunction->filter;
    entry.hook = static_cast<uint16_t>(conjunction->hooks.size());
    conjunction->hooks.push_back({this, static_cast<uint32_t>(entries.size()), 0});
    entries.push_back(entry);
}

void Bag::remove(uint32_t at) {
    const Entry last = entries.back();
    entries[at] = last;
    last.conjunction->hooks[last.hook].at = at;
    entries.pop_back();
    if (entries.size() * 4 < entries.capacity()) entries.shrink_to_fit();
}

Conjunction::Owned Conjunction::make(const std::vector<Test>& tests, View operands) {
    void* block = ::operator new(sizeof(Conjunction) + tests.size() * sizeof(Test) + operands.size);
    auto* conjunction = new (block) Conjunction(static_cast<uint32_t>(tests.size()));
    for (size_t at = 0; at < tests.size(); ++at) {
        new (conjunction->tests() + at) Test(tests[at]);
        conjunction->asks = conjunction->asks || tests[at].op == Op::Ask;
    }
    if (operands.size) std::memcpy(const_cast<char*>(conjunction->operands()), operands.at, operands.size);
    return Owned(conjunction);
}

void Conjunction::Delete::operator()(Conjunction* conjunction) const {
    conjunction->~Conjunction();
    ::operator delete(conjunction);
}

}  // namespace tidings

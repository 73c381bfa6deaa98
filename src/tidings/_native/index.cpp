#include "index.hpp"

#include <algorithm>

#include "text.hpp"

namespace tidings {

namespace {

// What a way costs beside the share of notifications that it leads to the conjunction: a grid leads to neighbours of a
// range as well, a bound to one bag after the other. A bag of those that are merely present is gone through fast.
double weight(How how) {
    switch (how) {
        case How::Value: case How::Within: return 0.2;
        case How::Gram: return 2.0;
        case How::Grid: return 8.0;
        case How::Above: case How::Below: return 3.0;
        default: return 1.0;
    }
}

constexpr double SLOT = 0.01;   // what a slot in a segment costs, where 1 is a look at an entry of a bag
constexpr double MISSED = 3.0;  // what it costs to test a conjunction in full

// What is assumed of a test before there is a sample.
double assumed(How how) {
    switch (how) {
        case How::Prefix: case How::Suffix: case How::Gram: return 0.05;
        case How::Within: return 0.1;
        case How::Grid: return 0.2;
        case How::Above: case How::Below: return 0.5;
        default: return 1.0;
    }
}

size_t depth_of(View path) {
    size_t depth = path.size ? 1 : 0;
    for (size_t at = 0; at < path.size; ++at) depth += path.at[at] == '/';
    return depth;
}

}  // namespace

Probe& Index::probe(const Test& test) {
    auto& probe = attribute(test.attribute).probes[static_cast<int>(test.kind)];
    if (!probe) probe = std::make_unique<Probe>();
    return *probe;
}

double Index::share(const Test& test, const char* operands, How how) {
    const uint64_t born = attribute(test.attribute).born;
    const double found = how == How::Present || how == How::Exists
                             ? sample_.present(test.attribute, how == How::Exists ? Kind::Missing : test.kind, born)
                             : sample_.passing(test, operands, born);
    const double floor = 0.25 / static_cast<double>(Sample::SIZE);
    if (found >= 0) return found < floor ? floor : found;
    if (how != How::Value) return assumed(how);
    const double keys = test.op == Op::In ? test.count : 1;
    return keys / (keys + static_cast<double>(probe(test).census.size()));
}

Index::Way Index::ranged(const Conjunction& conjunction, uint32_t at, double share) {
    const Test& test = conjunction.tests()[at];
    if (test.has_low && test.has_high) {
        double width;
        std::vector<double> cells;
        if (Probe::cells_of(test, width, cells) && probe(test).has_room(How::Grid, width))
            return {at, How::Grid, width, share * weight(How::Grid), share};
    } else {
        const How how = test.has_low ? How::Above : How::Below;
        if (share * weight(how) < 0.5) return {at, how, 0, share * weight(how), share};
    }
    return {at, How::Present, 0, this->share(test, conjunction.operands(), How::Present), share};
}

Index::Way Index::way(const Conjunction& conjunction, uint32_t at) {
    const Test& test = conjunction.tests()[at];
    const char* operands = conjunction.operands();
    How how = How::Present;
    double size = 0;
    if (test.op == Op::Null || test.op == Op::Ask) return {at, How::Always, 0, 2.0};
    if (test.op == Op::Exists) return {at, How::Exists, 0, share(test, operands, How::Exists)};
    if (!test.negated) {
        const View text = test.is_numeric() || test.op == Op::In ? View{nullptr, 0} : text_of(operands, test.first);
        switch (test.op) {
            case Op::Equal: how = How::Value; break;
            case Op::In:
                if (test.count <= Probe::MAX_KEYS) how = How::Value;
                break;
            case Op::Prefix: how = How::Prefix, size = static_cast<double>(text.size); break;
            case Op::Suffix: how = How::Suffix, size = static_cast<double>(text.size); break;
            case Op::Contains: how = How::Gram, size = static_cast<double>(text.size); break;
            case Op::Like: {
                const size_t head = Pattern::head(text).size, tail = Pattern::tail(text).size;
                const size_t longest = Pattern::longest(text).size;
                how = head >= 2 && head >= tail ? How::Prefix : tail >= 2 ? How::Suffix : head ? How::Prefix : How::Gram;
                size = static_cast<double>(how == How::Prefix ? head : how == How::Suffix ? tail : longest);
                break;
            }
            case Op::Within: how = How::Within, size = static_cast<double>(depth_of(text)); break;
            case Op::Range:
                if (test.is_numeric()) {
                    const How bound = test.has_low && test.has_high ? How::Grid : How::Above;
                    return ranged(conjunction, at, share(test, operands, bound));
                }
                break;
            default: break;
        }
        if (how == How::Gram && size > Probe::LONGEST_GRAM) size = Probe::LONGEST_GRAM;
        if (how != How::Present && how != How::Value && (size == 0 || !probe(test).has_room(how, size))) how = How::Present;
        if (how == How::Present) size = 0;
    }
    const double passing = share(test, operands, how);
    return {at, how, size, passing * weight(how), passing};
}

Index::Way Index::best(const Conjunction& conjunction) {
    Way best{0, How::Always, 0, 2.0};
    std::vector<std::pair<double, uint32_t>> guards;
    double together = 1;  // the share that passes all ranges of numbers, if they have nothing to do with each other
    bool known = false;
    for (uint32_t at = 0; at < conjunction.count; ++at) {
        const Way found = way(conjunction, at);
        const Test& test = conjunction.tests()[at];
        if (found.cost < best.cost) best = found;
        if (test.negated || !test.is_numeric() || (test.op != Op::Range && test.op != Op::Equal)) continue;
        guards.emplace_back(found.share, at);
        together *= found.share;
        known = sample_.seen() >= attribute(test.attribute).born + Sample::ENOUGH;
    }
    const double sifting = SLOT + MISSED * together;
    if (known && sifting < best.cost) return {guards.front().second, How::Segment, 0, sifting, together};
    for (auto& [share, at] : guards)  // a pivot that leads to few beside those who pass it need not be asked again
        if (at == best.pivot && best.how != How::Present) share = best.how == How::Grid ? 0.6 : 1.0;
    std::sort(guards.begin(), guards.end());
    for (size_t n = 0; n < 2 && n < guards.size(); ++n) best.guards[n] = guards[n].second;
    return best;
}

void Index::settle(Conjunction* conjunction, const Way& way) {
    conjunction->pivot = way.pivot;
    conjunction->how = way.how;
    conjunction->size = way.size;
    std::copy(way.guards, way.guards + 2, conjunction->guards);
    if (way.how == How::Segment) {
        Segment& one = segment(*conjunction);
        one.add(conjunction, sample_);
        conjunction->segment = &one;
        ++in_segments_;
        return;
    }
    if (way.how == How::Always) always_.add(conjunction);
    else if (way.how == How::Exists) attribute(conjunction->pivotal().attribute).exists.add(conjunction);
    else probe(conjunction->pivotal()).hang(conjunction);
}

Segment& Index::segment(const Conjunction& conjunction) {
    for (const auto& one : segments_)
        if (one->has_room(conjunction)) return *one;
    segments_.push_back(std::make_unique<Segment>());
    return *segments_.back();
}

void Index::leave(Conjunction* conjunction) {
    if (conjunction->how == How::Segment) {
        Segment* segment = conjunction->segment;
        segment->remove(conjunction);
        --in_segments_;
        if (segment->empty())
            segments_.erase(std::find_if(segments_.begin(), segments_.end(), [&](const auto& one) { return one.get() == segment; }));
        return;
    }
    if (conjunction->how != How::Always && conjunction->how != How::Exists) {
        probe(conjunction->pivotal()).unhang(conjunction);
        return;
    }
    const Conjunction::Hook hook = conjunction->hooks.back();
    hook.bag->remove(hook.at);
    conjunction->hooks.pop_back();
}

void Index::census(const Conjunction& conjunction, int change) {
    const char* operands = conjunction.operands();
    for (uint32_t at = 0; at < conjunction.count; ++at) {
        const Test& test = conjunction.tests()[at];
        if ((test.op != Op::Equal && test.op != Op::In) || test.negated) continue;
        auto& census = probe(test).census;
        const uint32_t keys = test.op == Op::Equal ? 1 : test.count < Probe::MAX_KEYS ? test.count : Probe::MAX_KEYS;
        for (uint32_t n = 0; n < keys; ++n) {
            uint64_t key;
            if (test.is_numeric()) {
                key = hashed(test.op == Op::In ? number_in(test, operands, n) : test.low, 0);
            } else {
                key = hashed(test.op == Op::In ? bytes_in(test, operands, n) : text_of(operands, test.first), 0);
            }
            if (change > 0) {
                ++census[key];
            } else {
                const auto found = census.find(key);
                if (!--found->second) census.erase(found);
            }
        }
    }
}

void Index::add(Filter* filter, uint32_t number) {
    if (found_.size() <= number) found_.resize(number + 1, 0);
    while (attributes_.size() < names.size()) attributes_.push_back(std::make_unique<Attribute>());
    for (const auto& conjunction : filter->conjunctions) {
        conjunction->filter = number;
        for (uint32_t at = 0; at < conjunction->count; ++at) {
            Attribute& one = attribute(conjunction->tests()[at].attribute);
            if (one.born == UINT64_MAX) one.born = sample_.seen();
        }
        census(*conjunction, 1);
        settle(conjunction.get(), best(*conjunction));
        conjunction->listed = static_cast<uint32_t>(all_.size());
        all_.push_back(conjunction.get());
    }
    review(1);
}

void Index::remove(Filter* filter) {
    for (const auto& conjunction : filter->conjunctions) {
        leave(conjunction.get());
        census(*conjunction, -1);
        all_.back()->listed = conjunction->listed;
        all_[conjunction->listed] = all_.back();
        all_.pop_back();
        for (uint32_t at = 0; at < conjunction->count; ++at) {
            const Test& test = conjunction->tests()[at];
            auto& probe = attribute(test.attribute).probes[static_cast<int>(test.kind)];
            if (probe && probe->empty()) probe.reset();
        }
        for (uint32_t at = 0; at < conjunction->count; ++at) {
            const uint32_t number = conjunction->tests()[at].attribute;
            if (names.release(number)) attribute(number) = Attribute();
        }
    }
    filter->conjunctions.clear();
    if (due_ > all_.size()) due_ = all_.size();
    review(1);
}

size_t Index::review(size_t most) {
    for (; most && due_; --most, --due_) {
        if (cursor_ >= all_.size()) cursor_ = 0;
        Conjunction* conjunction = all_[cursor_++];
        if (conjunction->how == How::Always) continue;
        const Way found = best(*conjunction);
        if (conjunction->how == How::Segment || found.how == How::Segment) {
            const bool moves = conjunction->how == How::Segment ? found.cost * BETTER < SLOT : found.how == How::Segment;
            if (!moves || found.how == conjunction->how) continue;
            leave(conjunction);
            settle(conjunction, found);
            continue;
        }
        const Way now = way(*conjunction, conjunction->pivot);
        const bool same = found.pivot == conjunction->pivot && found.how == conjunction->how && found.size == conjunction->size &&
                          std::equal(found.guards, found.guards + 2, conjunction->guards);
        // `now` is the best way of the same test, which may be another one than that in use.
        if (same || (found.pivot != conjunction->pivot && found.cost * BETTER >= now.cost && now.how == conjunction->how)) continue;
        leave(conjunction);
        settle(conjunction, found);
    }
    return due_;
}

void Index::observe() {
    const uint64_t before = sample_.seen();
    sample_.observe(reading);
    const uint64_t seen = sample_.seen();
    if (seen != before && (seen == 32 || seen == Sample::SIZE || seen % (16 * Sample::SIZE) == 0)) due_ = all_.size();
    review(REVIEWS);
    countdown_ = due_ || seen < Sample::SIZE ? stride_ : stride_ * PATIENCE;
}

// Whether a guard refuses. Nothing is known of lists.
bool Index::is_guarded(const Bag::Entry& entry, int n) const {
    if (entry.kind[n] == Kind::Missing) return false;
    const Value& value = reading[entry.attribute[n]];
    if (value.kind != entry.kind[n]) return value.kind != Kind::List;
    return value.number.near < entry.low[n] || value.number.near > entry.high[n];
}

void Index::gather(const Bag& bag) {
    for (const Bag::Entry& entry : bag.entries) {
        if (is_guarded(entry, 0) || is_guarded(entry, 1)) continue;
#if defined(__GNUC__)
        __builtin_prefetch(entry.conjunction->tests());
        __builtin_prefetch(reinterpret_cast<const char*>(entry.conjunction->tests()) + 64);
#endif
        met_.emplace_back(entry.conjunction, entry.filter);
    }
}

void Index::lead(uint32_t number, const Value& value) {
    const Attribute& attribute = *attributes_[number];
    const auto met = [this](const Bag& bag) { gather(bag); };
    gather(attribute.exists);
    if (value.kind != Kind::List) {
        const Probe* probe = attribute.probes[static_cast<int>(value.kind)].get();
        if (!probe) return;
        probe->lead(value, false, met);
        gather(probe->present);
        return;
    }
    for (size_t at = 0; at < value.list.count; ++at) {
        const Value& item = value.list.items[at];
        const Probe* probe = attribute.probes[static_cast<int>(item.kind)].get();
        if (probe) probe->lead(item, true, met);
    }
    for (const auto& probe : attribute.probes) {
        if (!probe) continue;
        gather(probe->present);
        gather(probe->grids);
    }
}

// 1: it passes, 0: it does not, -1: nobody knows.
int Index::judge(const Conjunction& conjunction, Asked& asked) const {
    const Test* end = conjunction.tests() + conjunction.count;
    const char* operands = reinterpret_cast<const char*>(end);
    for (const Test* test = conjunction.tests(); test != end; ++test)
        if (!passes(*test, operands, reading[test->attribute])) return 0;
    if (!conjunction.asks) return 1;
    for (const Test* test = conjunction.tests(); test != end; ++test) {
        if (test->op != Op::Ask) continue;
        const int answer = asked(test->asked);
        if (answer <= 0) return answer;
    }
    return 1;
}

bool Index::match(std::vector<uint32_t>& found, Asked& asked) {
    ++matches_;
    met_.clear();
    gather(always_);
    for (const uint32_t number : reading.present) lead(number, reading[number]);
    for (const auto& segment : segments_) segment->sift(reading, met_);
    for (const auto& [conjunction, filter] : met_) {
        if (found_[filter] == matches_) continue;
        const int answer = judge(*conjunction, asked);
        if (answer < 0) return false;
        if (!answer) continue;
        found_[filter] = matches_;
        found.push_back(filter);
    }
    if (!--countdown_) observe();
    return true;
}

}  // namespace tidings

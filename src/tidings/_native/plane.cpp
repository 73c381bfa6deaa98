// The data plane: from the bytes that a client sends to the bytes that others get, for publications that are plain.
//
// Theory of operation
// -------------------
// It stands at a lane (tidings.broker.forwarding) and does what `Lane.take` does, for a *run*: publications of one
// client that follow each other in one read, with consecutive numbers and of one quality. It stops before the first
// that is not plain, and Python does that one. It keeps no numbers, no counters and no publications: how far the broker
// and the publisher have come is given to `feed`, and what came of it is handed back. Until then nothing has happened.
//
// An envelope is written once for all who get it, in the form in which it also is remembered and stored. A frame is an
// opening, that envelope, and a closing that names the subscriptions, or the tree.
//
// A *plan* says who gets what passes just these filters: groups of links, each with its opening and closing. Python makes
// it, as the lane would find it, and it is remembered until a filter or the version changes. Frames of a group lie in one
// buffer. A link may be in groups of several plans: before a frame goes to another group of a link, the one that is open
// for it is sealed, so that what a link gets stays in order. If somebody stands apart now, Python gives the groups without
// them, and does the rest itself: so the run ends behind this one, before anything follows from that.
//
// *Checks* are other engines that judge the same body: a filter of an identity or an edge must match, an advertisement
// must announce it, nothing must lead out of its scope; and what observers wait for is noted.
#include "engine.hpp"
#include "frame.hpp"

#include <memory>
#include <new>
#include <string_view>
#include <unordered_map>

namespace tidings {

namespace {

constexpr size_t MAX_OUTPUT = 1 << 20;      // bytes of frames, or of envelopes, after which a run ends
constexpr size_t MAX_PLANS = 4096;          // remembered, and how many links these may have together
constexpr size_t MAX_PLANNED = 262144;
constexpr unsigned NOT_PLAIN = 0xFF;        // a quality that cannot be had now
constexpr unsigned FIRE = 0, STORED = 2;    // as in tidings.wire.Quality

struct Group {
    PyObject* links;
    std::string opening, closing;
    std::string routes;  // that they are told, if not those of the envelope
    std::vector<uint32_t> members;
    bool neighbours = false;
    // Of the run at hand.
    std::string frames, numbers;
    size_t count = 0, largest = 0;
};

struct Plan {
    PyObject* targets = nullptr;
    std::vector<Group> groups;
    bool plain = false;
    bool own = false;         // whether the publisher is among those who get it
    bool alone = false;       // whether it is a run of its own: whoever gets it may answer at once
    uint64_t looked_at = 0;   // the run in which it was asked whether somebody stands apart
    size_t clients = 0, neighbours = 0;

    Plan() = default;
    Plan(const Plan&) = delete;
    ~Plan() {
        Py_XDECREF(targets);
        for (Group& group : groups) Py_DECREF(group.links);
    }
};

struct Hash {
    size_t operator()(const std::vector<uint32_t>& key) const {
        uint64_t hash = 0x9E3779B97F4A7C15ull;
        for (const uint32_t one : key) hash = (hash ^ one) * 0xFF51AFD7ED558CCDull, hash ^= hash >> 32;
        return static_cast<size_t>(hash);
    }
};

using Plans = std::unordered_map<std::vector<uint32_t>, std::unique_ptr<Plan>, Hash>;
using Members = std::unordered_map<PyObject*, uint32_t>;

// Frames for the same links, one after the other.
struct Written {
    PyObject* links;
    std::string frames, numbers;  // the broker's number of what is in each frame, 64 bits each
    size_t count, largest;

    // What waits in a group, which has nothing then.
    explicit Written(Group& group)
        : links(group.links), frames(std::move(group.frames)), numbers(std::move(group.numbers)), count(group.count),
          largest(group.largest) {
        empty(group);
    }

    static void empty(Group& group) {
        group.frames.clear();
        group.numbers.clear();
        group.count = group.largest = 0;
    }
};

struct State {
    Plans plans;
    Members members;                 // links by number, each held
    std::vector<Group*> open;        // by number of a link, the group whose frames wait for it
    std::vector<Group*> opened;      // those with frames, in order
    std::vector<Written> written;
    std::vector<uint32_t> key, last_key;
    Plan* last = nullptr;
    std::unique_ptr<Plan> without;   // the last one of the run, without those who stand apart
    std::string head, version, routes, passing, envelope, envelopes, places;
    Scoped scoped;
    size_t routes_at = 0, routes_end = 0;  // in the envelope
    std::vector<size_t> watched;           // those that observers wait for, by their place in the run
    size_t planned = 0, output = 0;
    uint64_t run = 0, engine_version = 0;
    long long told_version = -1;
};

struct Plane {
    PyObject_HEAD
    Engine* engine;
    State* state;
    bool busy;
};

View view(const std::string& text) { return {text.data(), text.size()}; }

bool text_of(PyObject* object, std::string& into) {
    if (!PyBytes_CheckExact(object)) {
        PyErr_SetString(PyExc_TypeError, "bytes are expected here");
        return false;
    }
    into.assign(PyBytes_AS_STRING(object), static_cast<size_t>(PyBytes_GET_SIZE(object)));
    return true;
}

// Forget all plans. Whatever that releases may run code, so the state is in order before.
void forget(State& state) {
    Plans plans;
    Members members;
    plans.swap(state.plans);
    members.swap(state.members);
    state.open.clear();
    state.opened.clear();
    state.written.clear();
    state.last = nullptr;
    state.last_key.clear();
    state.planned = 0;
    plans.clear();
    for (const auto& member : members) Py_DECREF(member.first);
}

uint32_t member(State& state, PyObject* link) {
    const auto found = state.members.find(link);
    if (found != state.members.end()) return found->second;
    const auto number = static_cast<uint32_t>(state.open.size());
    state.open.push_back(nullptr);
    state.members.emplace(link, number);
    Py_INCREF(link);
    return number;
}

// --- plans ----------------------------------------------------------------------------------------------

// A group from (links, opening, closing, whether these are neighbours, routes or None).
bool group_of(State& state, PyObject* given, Plan& plan) {
    PyObject *links, *opening, *closing, *routes;
    int neighbours;
    if (!PyTuple_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "a group is a tuple");
        return false;
    }
    if (!PyArg_ParseTuple(given, "O!SSpO", &PyDict_Type, &links, &opening, &closing, &neighbours, &routes)) return false;
    Group group;
    if (!text_of(opening, group.opening) || !text_of(closing, group.closing)) return false;
    if (routes != Py_None && !text_of(routes, group.routes)) return false;
    group.neighbours = neighbours;
    PyObject *link, *ignored;
    Py_ssize_t at = 0;
    while (PyDict_Next(links, &at, &link, &ignored)) group.members.push_back(member(state, link));
    (neighbours ? plan.neighbours : plan.clients) += group.members.size();
    state.planned += group.members.size() + 1;
    group.links = nullptr;
    plan.groups.push_back(std::move(group));
    Py_INCREF(links);
    plan.groups.back().links = links;
    return true;
}

bool groups_of(State& state, PyObject* groups, Plan& plan) {
    plan.plain = true;
    plan.groups.reserve(static_cast<size_t>(PyList_GET_SIZE(groups)));
    for (Py_ssize_t n = 0; n < PyList_GET_SIZE(groups); ++n)
        if (!group_of(state, PyList_GET_ITEM(groups, n), plan)) return false;
    return true;
}

// A reference that ends with its scope.
struct Owned {
    PyObject* object;
    explicit Owned(PyObject* one) : object(one) {}
    Owned(const Owned&) = delete;
    ~Owned() { Py_XDECREF(object); }
};

// What Python says of those who get what passes the filters that were found; null with an exception set.
std::unique_ptr<Plan> made(Plane* self, PyObject* make, PyObject* link) {
    auto plan = std::make_unique<Plan>();
    const Owned keys(keys_of(self->engine));
    if (keys.object == nullptr) return nullptr;
    self->engine->busy = true;
    const Owned told(PyObject_CallFunctionObjArgs(make, keys.object, link, nullptr));
    self->engine->busy = false;
    if (told.object == nullptr) return nullptr;
    if (told.object == Py_None) return plan;
    PyObject *targets, *groups;
    int own, alone;
    if (!PyTuple_Check(told.object)) {
        PyErr_SetString(PyExc_TypeError, "a plan is a tuple, or None");
        return nullptr;
    }
    if (!PyArg_ParseTuple(told.object, "OpO!p", &targets, &own, &PyList_Type, &groups, &alone)) return nullptr;
    Py_INCREF(targets);
    plan->targets = targets;
    plan->own = own;
    plan->alone = alone;
    if (!groups_of(*self->state, groups, *plan)) return nullptr;
    return plan;
}

// The plan of what was found; null: there is none that is plain, perhaps with an exception set.
Plan* planned(Plane* self, PyObject* make, PyObject* link, uint32_t source) {
    State& state = *self->state;
    state.key.clear();
    state.key.push_back(source);
    state.key.insert(state.key.end(), self->engine->found->begin(), self->engine->found->end());
    if (state.last != nullptr && state.key == state.last_key) return state.last;
    const auto known = state.plans.find(state.key);
    if (known != state.plans.end()) return known->second->plain ? known->second.get() : nullptr;
    auto fresh = made(self, make, link);
    if (!fresh) return nullptr;
    Plan* plan = fresh.get();
    state.planned += state.key.size();
    state.plans.emplace(state.key, std::move(fresh));
    return plan->plain ? plan : nullptr;
}

// Whether the plane serves all who are in a plan, or all but some: then `plan` is another one, without them, and `left` is
// set. False: it serves nobody, perhaps with an exception set.
bool serves(Plane* self, PyObject* special, Plan*& plan, bool& left) {
    State& state = *self->state;
    if (special == Py_None || plan->looked_at == state.run) return true;
    self->engine->busy = true;
    const Owned answer(PyObject_CallOneArg(special, plan->targets));
    self->engine->busy = false;
    if (answer.object == nullptr) return false;
    if (answer.object == Py_None) {
        plan->looked_at = state.run;
        return true;
    }
    if (!PyList_Check(answer.object)) return false;
    auto without = std::make_unique<Plan>();
    const size_t remembered = state.planned;
    if (!groups_of(state, answer.object, *without)) return false;
    state.planned = remembered;
    without->own = plan->own;
    without->alone = plan->alone;
    state.without = std::move(without);
    plan = state.without.get();
    left = true;
    return true;
}

// Go on with this plan. What a link gets stays in order: frames of other groups that are open for it come first.
void turn_to(State& state, Plan* plan) {
    if (plan == state.last) return;
    for (Group& group : plan->groups) {
        for (const uint32_t one : group.members) {
            Group* other = state.open[one];
            if (other == nullptr || other == &group) continue;
            state.written.emplace_back(*other);
            for (const uint32_t its : other->members) state.open[its] = nullptr;
        }
    }
    state.last = plan;
    state.last_key = state.key;
}

// --- runs -----------------------------------------------------------------------------------------------

void deliver(State& state, Plan& plan, uint64_t number) {
    for (Group& group : plan.groups) {
        if (group.count == 0) {
            state.opened.push_back(&group);
            for (const uint32_t one : group.members) state.open[one] = &group;
        }
        const size_t before = group.frames.size();
        const View whole = view(state.envelope);
        if (group.routes.empty()) {
            put_part(group.frames, {view(group.opening), whole, view(group.closing)});
        } else {
            const View before{whole.at, state.routes_at}, after{whole.at + state.routes_end, whole.size - state.routes_end};
            put_part(group.frames, {view(group.opening), before, view(group.routes), after, view(group.closing)});
        }
        const size_t size = group.frames.size() - before;
        group.numbers.append(reinterpret_cast<const char*>(&number), sizeof number);
        ++group.count;
        state.output += size;
        if (size - 4 > group.largest) group.largest = size - 4;
    }
}

// Close all buffers of the run: what is in them is handed over, or dropped.
void close(State& state, bool keep) {
    for (Group* group : state.opened) {
        if (group->count && keep) state.written.emplace_back(*group);
        Written::empty(*group);
        for (const uint32_t one : group->members) state.open[one] = nullptr;
    }
    state.opened.clear();
    state.last = nullptr;
}

PyObject* bytes_from(const std::string& text) {
    return PyBytes_FromStringAndSize(text.data(), static_cast<Py_ssize_t>(text.size()));
}

PyObject* written_of(State& state) {
    PyObject* list = PyList_New(static_cast<Py_ssize_t>(state.written.size()));
    if (list == nullptr) return nullptr;
    for (size_t n = 0; n < state.written.size(); ++n) {
        const Written& one = state.written[n];
        PyObject* item = Py_BuildValue("(ONnnN)", one.links, bytes_from(one.frames), static_cast<Py_ssize_t>(one.count),
                                       static_cast<Py_ssize_t>(one.largest), bytes_from(one.numbers));
        if (item == nullptr) {
            Py_DECREF(list);
            return nullptr;
        }
        PyList_SET_ITEM(list, static_cast<Py_ssize_t>(n), item);
    }
    return list;
}

// What a run is about, whoever brings it.
struct Given {
    View data;
    size_t at;
    PyObject* link;
    size_t most;
    long long version;
    PyObject *make, *special;
};

struct Published : Given {
    std::string publisher;
    uint64_t last, known, now;
    unsigned char qualities[4];
    PyObject* guards = nullptr;  // of all of these a filter must match
    Plane *announced = nullptr, *outer = nullptr, *watch = nullptr;
    bool watches_all = false;
};

struct Brought : Given {
    std::string hop;
};

struct Taken {
    size_t at = 0, count = 0, clients = 0, neighbours = 0;
    bool left = false;
};

struct Fed : Taken {
    size_t bodies = 0;
    uint64_t seq = 0;
    unsigned asked = 0, quality = 0;
};

struct Gone : Taken {
    std::string origin, publisher;
    uint64_t epoch = 0, seq = 0;
};

void write_envelope(State& state, const Published& given, const Publication& one, uint64_t number, unsigned quality) {
    std::string& into = state.envelope;
    into = state.head;
    put_number(into, number);
    into += given.publisher;
    put_number(into, one.seq);
    put_number(into, given.now);
    into += state.version;
    if (one.has_ttl) put_number(into, one.ttl);
    else into.push_back('\xC0');
    state.routes_at = into.size();
    into += state.routes;
    state.routes_end = into.size();
    put_bytes(into, one.body);
    into.push_back(static_cast<char>(quality));
}

bool passes(Plane* check, View body) { return matched(check->engine, body) && !check->engine->found->empty(); }

// Whether a publication passes all checks; whether it is watched. What does not is left to Python, which says why.
bool checked(const Published& given, View body, bool& watched) {
    watched = given.watches_all;
    if (given.guards != nullptr)
        for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(given.guards); ++n)
            if (!passes(reinterpret_cast<Plane*>(PyTuple_GET_ITEM(given.guards, n)), body)) return false;
    if (given.announced != nullptr) {  // what is advertised is promised for each element of a list
        if (!passes(given.announced, body) || given.announced->engine->index->reading.has_lists()) return false;
    }
    if (given.outer != nullptr) {
        if (!matched(given.outer->engine, body) || !given.outer->engine->found->empty()) return false;
    }
    if (given.watch != nullptr) {
        if (!matched(given.watch->engine, body)) return false;
        watched = !given.watch->engine->found->empty();
    }
    return true;
}

// Count what was taken; whether the run goes on behind it.
bool goes_on(Taken& taken, const Plan& plan, size_t size) {
    taken.at += size;
    ++taken.count;
    taken.clients += plan.clients;
    taken.neighbours += plan.neighbours;
    return !taken.left && !plan.alone;
}

// Take as many as are plain. An exception may be set; what was taken before it counts.
Fed run(Plane* self, const Published& given) {
    State& state = *self->state;
    Fed taken;
    taken.at = given.at;
    const uint32_t source = member(state, given.link);
    while (taken.count < given.most && state.output < MAX_OUTPUT && state.envelopes.size() < MAX_OUTPUT) {
        unsigned kind;
        const View rest{given.data.at + taken.at, given.data.size - taken.at};
        const size_t size = whole_part(rest, kind);
        Publication one;
        if (!size || kind || !is_plain({rest.at + PART_HEADER, size - PART_HEADER}, one)) break;
        const unsigned quality = given.qualities[one.quality];
        if (quality == NOT_PLAIN) break;
        if (taken.count == 0 ? one.seq <= given.known : one.seq != taken.seq + 1 || one.quality != taken.asked) break;
        bool watched;
        if (given.last + taken.count >= MAX_NUMBER || !checked(given, one.body, watched)) break;
        if (!matched(self->engine, one.body)) break;
        Plan* plan = planned(self, given.make, given.link, source);
        if (plan == nullptr || (plan->alone && taken.count)) break;
        if (plan->own && quality != FIRE && quality != STORED) break;  // its acknowledgements go between
        if (!serves(self, given.special, plan, taken.left)) break;
        turn_to(state, plan);
        const uint64_t number = given.last + taken.count + 1;
        write_envelope(state, given, one, number, quality);
        deliver(state, *plan, number);
        if (watched) state.watched.push_back(taken.count);
        state.envelopes += state.envelope;
        const auto length = static_cast<uint32_t>(one.body.size);  // the body is followed by its quality alone
        const uint32_t place[] = {static_cast<uint32_t>(state.envelopes.size()) - 1 - length, length};
        state.places.append(reinterpret_cast<const char*>(place), sizeof place);
        taken.bodies += one.body.size;
        taken.seq = one.seq;
        taken.asked = one.quality;
        taken.quality = quality;
        if (!goes_on(taken, *plan, size)) break;
    }
    return taken;
}

// --- what neighbours bring ------------------------------------------------------------------------------

bool is(View text, const std::string& other) { return std::string_view(text.at, text.size) == other; }

// Pass on as many of one origin as are plain, in the order of their numbers. An exception may be set, as for `run`.
Gone pass(Plane* self, const Brought& given) {
    State& state = *self->state;
    Gone gone;
    gone.at = given.at;
    const uint32_t source = member(state, given.link);
    while (gone.count < given.most && state.output < MAX_OUTPUT) {
        unsigned kind;
        const View rest{given.data.at + gone.at, given.data.size - gone.at};
        const size_t size = whole_part(rest, kind);
        Passing one;
        if (!size || kind) break;
        const View frame{rest.at + PART_HEADER, size - PART_HEADER};
        if (!is_passing(frame, view(state.passing), state.scoped, view(given.hop), one)) break;
        if (gone.count && (one.epoch != gone.epoch || one.seq <= gone.seq || !is(one.origin, gone.origin))) break;
        if (gone.count && !state.scoped.before.empty() && !is(one.publisher, gone.publisher)) break;
        if (!matched(self->engine, one.body)) break;
        Plan* plan = planned(self, given.make, given.link, source);
        if (plan == nullptr || (plan->alone && gone.count) || !serves(self, given.special, plan, gone.left)) break;
        turn_to(state, plan);
        state.envelope.assign(one.envelope.at, one.envelope.size);
        state.routes_at = static_cast<size_t>(one.routes.at - one.envelope.at);
        state.routes_end = state.routes_at + one.routes.size;
        deliver(state, *plan, one.seq);
        if (gone.count == 0) {
            gone.origin.assign(one.origin.at, one.origin.size);
            gone.publisher.assign(one.publisher.at, one.publisher.size);
        }
        gone.epoch = one.epoch;
        gone.seq = one.seq;
        if (!goes_on(gone, *plan, size)) break;
    }
    return gone;
}

// --- arguments and results ------------------------------------------------------------------------------

// data, at, link, most, version, make, special
constexpr Py_ssize_t GIVEN = 7;

bool read_given(const char* name, PyObject* const* items, Py_ssize_t count, Py_ssize_t more, Given& given) {
    if (count != GIVEN + more) {
        PyErr_Format(PyExc_TypeError, "%s takes %zd arguments, not %zd", name, GIVEN + more, count);
        return false;
    }
    if (!PyBytes_CheckExact(items[0])) {
        PyErr_SetString(PyExc_TypeError, "the data are bytes");
        return false;
    }
    given.data = {PyBytes_AS_STRING(items[0]), static_cast<size_t>(PyBytes_GET_SIZE(items[0]))};
    given.at = PyLong_AsSize_t(items[1]);
    given.link = items[2];
    given.most = PyLong_AsSize_t(items[3]);
    given.version = PyLong_AsLongLong(items[4]);
    given.make = items[5];
    given.special = items[6];
    if (PyErr_Occurred()) return false;
    if (given.at > given.data.size) {
        PyErr_SetString(PyExc_ValueError, "there is no such place in the data");
        return false;
    }
    return true;
}

// Another plane whose filters are asked; null with an exception set.
Plane* check_of(Plane* self, PyObject* object) {
    if (Py_TYPE(object) != Py_TYPE(self)) {
        PyErr_SetString(PyExc_TypeError, "a check is a plane");
        return nullptr;
    }
    auto* plane = reinterpret_cast<Plane*>(object);
    return is_busy(plane->engine) ? nullptr : plane;
}

bool read_check(Plane* self, PyObject* object, Plane*& into) {
    if (object == Py_None) return true;
    into = check_of(self, object);
    return into != nullptr;
}

// The checks: None, or (guards, announced, outer, watch).
bool read_checks(Plane* self, PyObject* checks, Published& given) {
    if (checks == Py_None) return true;
    if (!PyTuple_Check(checks) || PyTuple_GET_SIZE(checks) != 4 || !PyTuple_Check(PyTuple_GET_ITEM(checks, 0))) {
        PyErr_SetString(PyExc_TypeError, "checks are four, the first a tuple, or None");
        return false;
    }
    given.guards = PyTuple_GET_ITEM(checks, 0);
    for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(given.guards); ++n)
        if (check_of(self, PyTuple_GET_ITEM(given.guards, n)) == nullptr) return false;
    given.watches_all = PyTuple_GET_ITEM(checks, 3) == Py_True;
    return read_check(self, PyTuple_GET_ITEM(checks, 1), given.announced) &&
           read_check(self, PyTuple_GET_ITEM(checks, 2), given.outer) &&
           (given.watches_all || read_check(self, PyTuple_GET_ITEM(checks, 3), given.watch));
}

// And behind these: publisher, last, known, now, qualities, checks
bool read_published(Plane* self, PyObject* const* items, Py_ssize_t count, Published& given) {
    if (!read_given("feed", items, count, 6, given)) return false;
    items += GIVEN;
    if (!text_of(items[0], given.publisher)) return false;
    given.last = PyLong_AsUnsignedLongLong(items[1]);
    given.known = PyLong_AsUnsignedLongLong(items[2]);
    given.now = PyLong_AsUnsignedLongLong(items[3]);
    if (PyErr_Occurred()) return false;
    PyObject* qualities = items[4];
    if (!PyBytes_CheckExact(qualities) || PyBytes_GET_SIZE(qualities) != 4) {
        PyErr_SetString(PyExc_TypeError, "four qualities are bytes");
        return false;
    }
    std::memcpy(given.qualities, PyBytes_AS_STRING(qualities), 4);
    for (const unsigned char quality : given.qualities) {
        if (quality != NOT_PLAIN && quality > STORED) {
            PyErr_SetString(PyExc_ValueError, "a publication is fired, accepted or stored");
            return false;
        }
    }
    return read_checks(self, items[5], given);
}

PyObject* watched_of(const State& state) {
    PyObject* list = PyList_New(static_cast<Py_ssize_t>(state.watched.size()));
    for (size_t n = 0; list != nullptr && n < state.watched.size(); ++n) {
        PyObject* place = PyLong_FromSize_t(state.watched[n]);
        if (place == nullptr) Py_CLEAR(list);
        else PyList_SET_ITEM(list, static_cast<Py_ssize_t>(n), place);
    }
    return list;
}

PyObject* result_of(State& state, const Fed& fed) {
    return Py_BuildValue("(nnNOnnKiiNNnN)", static_cast<Py_ssize_t>(fed.at), static_cast<Py_ssize_t>(fed.count),
                         written_of(state), fed.left ? Py_True : Py_False, static_cast<Py_ssize_t>(fed.clients),
                         static_cast<Py_ssize_t>(fed.neighbours), static_cast<unsigned long long>(fed.seq),
                         static_cast<int>(fed.asked), static_cast<int>(fed.quality), bytes_from(state.envelopes),
                         bytes_from(state.places), static_cast<Py_ssize_t>(fed.bodies), watched_of(state));
}

PyObject* result_of(State& state, const Gone& gone) {
    return Py_BuildValue("(nnNOnns#KK)", static_cast<Py_ssize_t>(gone.at), static_cast<Py_ssize_t>(gone.count),
                         written_of(state), gone.left ? Py_True : Py_False, static_cast<Py_ssize_t>(gone.clients),
                         static_cast<Py_ssize_t>(gone.neighbours), gone.origin.data(),
                         static_cast<Py_ssize_t>(gone.origin.size()), static_cast<unsigned long long>(gone.epoch),
                         static_cast<unsigned long long>(gone.seq));
}

bool is_used(Plane* self) {
    if (self->busy) PyErr_SetString(PyExc_RuntimeError, "the plane is in use");
    return self->busy || is_busy(self->engine);
}

// Forget the plans that are no longer true, and begin a run.
void begin(Plane* self, long long version) {
    State& state = *self->state;
    if (state.engine_version != self->engine->version || state.told_version != version ||
        state.plans.size() >= MAX_PLANS || state.planned >= MAX_PLANNED)
        forget(state);
    state.engine_version = self->engine->version;
    state.told_version = version;
    ++state.run;
    state.output = 0;
    state.envelopes.clear();
    state.places.clear();
    state.watched.clear();
}

// One call: `take` gives what was taken of `given`, unless some filter only Python can ask.
template <typename Which, typename Read, typename Take>
PyObject* called(Plane* self, Read read, Take take) {
    if (is_used(self)) return nullptr;
    State& state = *self->state;
    PyObject* result = nullptr;
    self->busy = true;
    try {
        Which given;
        if (read(given)) {
            begin(self, given.version);
            if (self->engine->open) {
                result = Py_NewRef(Py_None);
            } else {
                const auto taken = take(given);
                close(state, true);
                if (taken.count) {
                    PyErr_Clear();  // it comes again, at the start of the next run
                    result = result_of(state, taken);
                } else if (!PyErr_Occurred()) {
                    result = Py_NewRef(Py_None);
                }
            }
        }
    } catch (const std::bad_alloc&) {
        PyErr_Clear();
        Py_XDECREF(result);
        result = PyErr_NoMemory();
    }
    close(state, false);
    state.written.clear();
    const std::unique_ptr<Plan> without = std::move(state.without);  // to release it may run code
    self->busy = false;
    return result;
}

PyObject* plane_pass_on(Plane* self, PyObject* const* items, Py_ssize_t count) {
    return called<Brought>(
        self,
        [&](Brought& given) {
            return read_given("pass_on", items, count, 1, given) && text_of(items[GIVEN], given.hop);
        },
        [&](const Brought& given) { return pass(self, given); });
}

PyObject* plane_feed(Plane* self, PyObject* const* items, Py_ssize_t count) {
    return called<Published>(
        self, [&](Published& given) { return read_published(self, items, count, given); },
        [&](const Published& given) { return run(self, given); });
}

PyObject* plane_arm(Plane* self, PyObject* arguments) {
    PyObject *head, *version, *routes, *passing, *before, *after;
    if (!PyArg_ParseTuple(arguments, "SSSSSS", &head, &version, &routes, &passing, &before, &after)) return nullptr;
    if (is_used(self)) return nullptr;
    try {
        State& state = *self->state;
        if (!text_of(head, state.head) || !text_of(version, state.version) || !text_of(routes, state.routes)) return nullptr;
        if (!text_of(passing, state.passing)) return nullptr;
        if (!text_of(before, state.scoped.before) || !text_of(after, state.scoped.after)) return nullptr;
        state.scoped.version = state.version;
        forget(state);
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
    Py_RETURN_NONE;
}

PyObject* plane_sound(Plane*, PyObject* arguments) {
    PyObject* data;
    Py_ssize_t limit;
    if (!PyArg_ParseTuple(arguments, "Sn", &data, &limit)) return nullptr;
    const View bytes{PyBytes_AS_STRING(data), static_cast<size_t>(PyBytes_GET_SIZE(data))};
    return PyBool_FromLong(limit >= 0 && is_sound(bytes, static_cast<size_t>(limit)));
}

PyObject* plane_plans(Plane* self, PyObject*) { return PyLong_FromSize_t(self->state->plans.size()); }

int plane_traverse(Plane* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(reinterpret_cast<PyObject*>(self->engine));
    if (self->state == nullptr) return 0;
    for (const auto& [key, plan] : self->state->plans) {
        Py_VISIT(plan->targets);
        for (const Group& group : plan->groups) Py_VISIT(group.links);
    }
    for (const auto& member : self->state->members) Py_VISIT(member.first);
    return 0;
}

int plane_clear(Plane* self) {
    if (self->state != nullptr && !self->busy) forget(*self->state);
    return 0;
}

void plane_dealloc(Plane* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    plane_clear(self);
    delete self->state;
    Py_CLEAR(self->engine);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"arm", reinterpret_cast<PyCFunction>(plane_arm), METH_VARARGS, "arm(head, version, routes, passing, before, after)"},
    {"feed", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(plane_feed)), METH_FASTCALL,
     "feed(...) -> what came of a run, or None"},
    {"pass_on", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(plane_pass_on)), METH_FASTCALL,
     "pass_on(...) -> what came of a run of notifications, or None"},
    {"is_sound", reinterpret_cast<PyCFunction>(plane_sound), METH_VARARGS, "is_sound(data, limit) -> bool"},
    {"plans", reinterpret_cast<PyCFunction>(plane_plans), METH_NOARGS, "plans() -> how many are remembered"},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_dealloc, reinterpret_cast<void*>(plane_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(plane_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(plane_clear)},
    {Py_tp_methods, methods},
    {0, nullptr},
};

}  // namespace

PyType_Spec plane_spec = {"tidings._native._engine.Plane", sizeof(Plane), 0,
                          Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION, slots};

PyObject* make_plane(PyTypeObject* type, Engine* engine) {
    auto* self = reinterpret_cast<Plane*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    self->state = new (std::nothrow) State();
    if (self->state == nullptr) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    Py_INCREF(engine);
    self->engine = engine;
    return reinterpret_cast<PyObject*>(self);
}

}  // namespace tidings

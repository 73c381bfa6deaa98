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
// for it is sealed, so that what a link gets stays in order.
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
    std::vector<uint32_t> members;
    bool neighbours = false;
    // Of the run at hand.
    std::string frames;
    size_t count = 0, largest = 0;
};

struct Plan {
    PyObject* targets = nullptr;
    std::vector<Group> groups;
    bool plain = false;
    bool own = false;         // whether the publisher is among those who get it
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
    std::string frames;
    size_t count, largest;
};

struct State {
    Plans plans;
    Members members;                 // links by number, each held
    std::vector<Group*> open;        // by number of a link, the group whose frames wait for it
    std::vector<Group*> opened;      // those with frames, in order
    std::vector<Written> written;
    std::vector<uint32_t> key, last_key;
    Plan* last = nullptr;
    std::string head, version, routes, envelope, envelopes, places;
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

// A group from (links, opening, closing, whether these are neighbours).
bool group_of(State& state, PyObject* given, Plan& plan) {
    PyObject *links, *opening, *closing;
    int neighbours;
    if (!PyTuple_Check(given)) {
        PyErr_SetString(PyExc_TypeError, "a group is a tuple");
        return false;
    }
    if (!PyArg_ParseTuple(given, "O!SSp", &PyDict_Type, &links, &opening, &closing, &neighbours)) return false;
    Group group;
    if (!text_of(opening, group.opening) || !text_of(closing, group.closing)) return false;
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

// What Python says of those who get what passes the filters that were found; null with an exception set.
std::unique_ptr<Plan> made(Plane* self, PyObject* make, PyObject* link) {
    auto plan = std::make_unique<Plan>();
    PyObject* keys = keys_of(self->engine);
    if (keys == nullptr) return nullptr;
    self->engine->busy = true;
    PyObject* told = PyObject_CallFunctionObjArgs(make, keys, link, nullptr);
    self->engine->busy = false;
    Py_DECREF(keys);
    if (told == nullptr) return nullptr;
    if (told == Py_None) {
        Py_DECREF(told);
        return plan;
    }
    PyObject *targets, *groups;
    int own;
    bool done = PyTuple_Check(told) && PyArg_ParseTuple(told, "OpO!", &targets, &own, &PyList_Type, &groups);
    if (!done && !PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a plan is a tuple, or None");
    if (done) {
        Py_INCREF(targets);
        plan->targets = targets;
        plan->own = own;
        plan->plain = true;
        try {
            plan->groups.reserve(static_cast<size_t>(PyList_GET_SIZE(groups)));
            for (Py_ssize_t n = 0; done && n < PyList_GET_SIZE(groups); ++n)
                done = group_of(*self->state, PyList_GET_ITEM(groups, n), *plan);
        } catch (...) {
            Py_DECREF(told);
            throw;
        }
    }
    Py_DECREF(told);
    return done ? std::move(plan) : nullptr;
}

// The plan of what was found; null: there is none that is plain, perhaps with an exception set.
Plan* planned(Plane* self, PyObject* make, PyObject* special, PyObject* link, uint32_t source) {
    State& state = *self->state;
    state.key.clear();
    state.key.push_back(source);
    state.key.insert(state.key.end(), self->engine->found->begin(), self->engine->found->end());
    Plan* plan = state.last;
    if (plan == nullptr || state.key != state.last_key) {
        const auto known = state.plans.find(state.key);
        if (known != state.plans.end()) {
            plan = known->second.get();
        } else {
            auto fresh = made(self, make, link);
            if (!fresh) return nullptr;
            plan = fresh.get();
            state.planned += state.key.size();
            state.plans.emplace(state.key, std::move(fresh));
        }
        if (!plan->plain) return nullptr;
        for (Group& group : plan->groups) {  // what a link gets stays in order
            for (const uint32_t one : group.members) {
                Group* other = state.open[one];
                if (other == nullptr || other == &group) continue;
                state.written.push_back({other->links, std::move(other->frames), other->count, other->largest});
                other->frames.clear();
                other->count = other->largest = 0;
                for (const uint32_t its : other->members) state.open[its] = nullptr;
            }
        }
        state.last = plan;
        state.last_key = state.key;
    }
    if (special != Py_None && plan->looked_at != state.run) {
        self->engine->busy = true;
        PyObject* answer = PyObject_CallOneArg(special, plan->targets);
        self->engine->busy = false;
        const int apart = answer == nullptr ? -1 : PyObject_IsTrue(answer);
        Py_XDECREF(answer);
        if (apart) return nullptr;
        plan->looked_at = state.run;
    }
    return plan;
}

// --- runs -----------------------------------------------------------------------------------------------

void deliver(State& state, Plan& plan) {
    for (Group& group : plan.groups) {
        if (group.count == 0) {
            state.opened.push_back(&group);
            for (const uint32_t one : group.members) state.open[one] = &group;
        }
        const size_t before = group.frames.size();
        put_part(group.frames, view(group.opening), view(state.envelope), view(group.closing));
        const size_t size = group.frames.size() - before;
        ++group.count;
        state.output += size;
        if (size - 4 > group.largest) group.largest = size - 4;
    }
}

// Close all buffers of the run: what is in them is handed over, or dropped.
void close(State& state, bool keep) {
    for (Group* group : state.opened) {
        if (group->count && keep)
            state.written.push_back({group->links, std::move(group->frames), group->count, group->largest});
        group->frames.clear();
        group->count = group->largest = 0;
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
        PyObject* item = Py_BuildValue("(ONnn)", one.links, bytes_from(one.frames), static_cast<Py_ssize_t>(one.count),
                                       static_cast<Py_ssize_t>(one.largest));
        if (item == nullptr) {
            Py_DECREF(list);
            return nullptr;
        }
        PyList_SET_ITEM(list, static_cast<Py_ssize_t>(n), item);
    }
    return list;
}

struct Given {
    View data;
    size_t at;
    PyObject* link;
    std::string publisher;
    uint64_t last, known, now;
    unsigned char qualities[4];
    Plane* guard;
    size_t most;
    long long version;
    PyObject *make, *special;
};

struct Taken {
    size_t at = 0, count = 0, clients = 0, neighbours = 0, bodies = 0;
    uint64_t seq = 0;
    unsigned asked = 0, quality = 0;
};

void write_envelope(State& state, const Given& given, const Publication& one, uint64_t number, unsigned quality) {
    std::string& into = state.envelope;
    into = state.head;
    put_number(into, number);
    into += given.publisher;
    put_number(into, one.seq);
    put_number(into, given.now);
    into += state.version;
    if (one.has_ttl) put_number(into, one.ttl);
    else into.push_back('\xC0');
    into += state.routes;
    put_bytes(into, one.body);
    into.push_back(static_cast<char>(quality));
}

// Take as many as are plain. An exception may be set; what was taken before it counts.
Taken run(Plane* self, const Given& given) {
    State& state = *self->state;
    Taken taken;
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
        if (given.last + taken.count >= MAX_NUMBER || !matched(self->engine, one.body)) break;
        if (given.guard != nullptr && (!matched(given.guard->engine, one.body) || given.guard->engine->found->empty())) break;
        Plan* plan = planned(self, given.make, given.special, given.link, source);
        if (plan == nullptr) break;
        if (plan->own && quality != FIRE && quality != STORED) break;  // its acknowledgements go between
        write_envelope(state, given, one, given.last + taken.count + 1, quality);
        deliver(state, *plan);
        state.envelopes += state.envelope;
        const auto length = static_cast<uint32_t>(one.body.size);  // the body is followed by its quality alone
        const uint32_t place[] = {static_cast<uint32_t>(state.envelopes.size()) - 1 - length, length};
        state.places.append(reinterpret_cast<const char*>(place), sizeof place);
        taken.at += size;
        ++taken.count;
        taken.bodies += one.body.size;
        taken.clients += plan->clients;
        taken.neighbours += plan->neighbours;
        taken.seq = one.seq;
        taken.asked = one.quality;
        taken.quality = quality;
    }
    return taken;
}

// --- what neighbours bring ------------------------------------------------------------------------------

struct Brought {
    View data;
    size_t at;
    PyObject* link;
    std::string hop;
    size_t most;
    long long version;
    PyObject *make, *special;
};

struct Gone {
    size_t at = 0, count = 0, clients = 0, neighbours = 0;
    std::string origin;
    uint64_t epoch = 0, seq = 0;
};

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
        if (!is_passing({rest.at + PART_HEADER, size - PART_HEADER}, view(state.routes), view(given.hop), one)) break;
        if (gone.count && (one.epoch != gone.epoch || one.seq <= gone.seq ||
                           std::string_view(one.origin.at, one.origin.size) != gone.origin))
            break;
        if (!matched(self->engine, one.body)) break;
        Plan* plan = planned(self, given.make, given.special, given.link, source);
        if (plan == nullptr) break;
        state.envelope.assign(one.envelope.at, one.envelope.size);
        deliver(state, *plan);
        if (gone.count == 0) gone.origin.assign(one.origin.at, one.origin.size);
        gone.at += size;
        ++gone.count;
        gone.clients += plan->clients;
        gone.neighbours += plan->neighbours;
        gone.epoch = one.epoch;
        gone.seq = one.seq;
    }
    return gone;
}

bool read_brought(PyObject* const* items, Py_ssize_t count, Brought& given) {
    if (count != 8) {
        PyErr_Format(PyExc_TypeError, "pass_on takes 8 arguments, not %zd", count);
        return false;
    }
    if (!PyBytes_CheckExact(items[0])) {
        PyErr_SetString(PyExc_TypeError, "the data are bytes");
        return false;
    }
    given.data = {PyBytes_AS_STRING(items[0]), static_cast<size_t>(PyBytes_GET_SIZE(items[0]))};
    given.at = PyLong_AsSize_t(items[1]);
    given.link = items[2];
    if (!text_of(items[3], given.hop)) return false;
    given.most = PyLong_AsSize_t(items[4]);
    given.version = PyLong_AsLongLong(items[5]);
    given.make = items[6];
    given.special = items[7];
    if (PyErr_Occurred()) return false;
    if (given.at > given.data.size) {
        PyErr_SetString(PyExc_ValueError, "there is no such place in the data");
        return false;
    }
    return true;
}

bool read_arguments(Plane* self, PyObject* const* items, Py_ssize_t count, Given& given) {
    if (count != 13) {
        PyErr_Format(PyExc_TypeError, "feed takes 13 arguments, not %zd", count);
        return false;
    }
    PyObject *data = items[0], *qualities = items[7], *guard = items[8];
    if (!PyBytes_CheckExact(data) || !PyBytes_CheckExact(qualities) || PyBytes_GET_SIZE(qualities) != 4) {
        PyErr_SetString(PyExc_TypeError, "the data and four qualities are bytes");
        return false;
    }
    given.data = {PyBytes_AS_STRING(data), static_cast<size_t>(PyBytes_GET_SIZE(data))};
    given.at = PyLong_AsSize_t(items[1]);
    given.link = items[2];
    if (!text_of(items[3], given.publisher)) return false;
    given.last = PyLong_AsUnsignedLongLong(items[4]);
    given.known = PyLong_AsUnsignedLongLong(items[5]);
    given.now = PyLong_AsUnsignedLongLong(items[6]);
    std::memcpy(given.qualities, PyBytes_AS_STRING(qualities), 4);
    given.guard = nullptr;
    given.most = PyLong_AsSize_t(items[9]);
    given.version = PyLong_AsLongLong(items[10]);
    given.make = items[11];
    given.special = items[12];
    if (PyErr_Occurred()) return false;
    if (guard != Py_None) {
        if (Py_TYPE(guard) != Py_TYPE(self)) {
            PyErr_SetString(PyExc_TypeError, "a guard is a plane, or None");
            return false;
        }
        given.guard = reinterpret_cast<Plane*>(guard);
        if (is_busy(given.guard->engine)) return false;
    }
    for (const unsigned char quality : given.qualities) {
        if (quality != NOT_PLAIN && quality > STORED) {
            PyErr_SetString(PyExc_ValueError, "a publication is fired, accepted or stored");
            return false;
        }
    }
    if (given.at > given.data.size) {
        PyErr_SetString(PyExc_ValueError, "there is no such place in the data");
        return false;
    }
    return true;
}

PyObject* result_of(State& state, const Taken& taken) {
    PyObject* written = written_of(state);
    if (written == nullptr) return nullptr;
    return Py_BuildValue("(nnKiiNNnnnN)", static_cast<Py_ssize_t>(taken.at), static_cast<Py_ssize_t>(taken.count),
                         static_cast<unsigned long long>(taken.seq), static_cast<int>(taken.asked),
                         static_cast<int>(taken.quality), bytes_from(state.envelopes), bytes_from(state.places),
                         static_cast<Py_ssize_t>(taken.bodies), static_cast<Py_ssize_t>(taken.clients),
                         static_cast<Py_ssize_t>(taken.neighbours), written);
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
}

PyObject* plane_pass_on(Plane* self, PyObject* const* items, Py_ssize_t count) {
    if (is_used(self)) return nullptr;
    State& state = *self->state;
    PyObject* result = nullptr;
    self->busy = true;
    try {
        Brought given;
        if (read_brought(items, count, given)) {
            begin(self, given.version);
            Gone gone;
            if (!self->engine->open) gone = pass(self, given);  // else some filter only Python can ask
            close(state, true);
            if (gone.count) {
                PyErr_Clear();  // it comes again, at the start of the next run
                if (PyObject* written = written_of(state))
                    result = Py_BuildValue("(nns#KKnnN)", static_cast<Py_ssize_t>(gone.at), static_cast<Py_ssize_t>(gone.count),
                                           gone.origin.data(), static_cast<Py_ssize_t>(gone.origin.size()),
                                           static_cast<unsigned long long>(gone.epoch),
                                           static_cast<unsigned long long>(gone.seq), static_cast<Py_ssize_t>(gone.clients),
                                           static_cast<Py_ssize_t>(gone.neighbours), written);
            } else if (!PyErr_Occurred()) {
                result = Py_NewRef(Py_None);
            }
        }
    } catch (const std::bad_alloc&) {
        PyErr_Clear();
        Py_XDECREF(result);
        result = PyErr_NoMemory();
    }
    close(state, false);
    state.written.clear();
    self->busy = false;
    return result;
}

PyObject* plane_feed(Plane* self, PyObject* const* items, Py_ssize_t count) {
    if (is_used(self)) return nullptr;
    State& state = *self->state;
    PyObject* result = nullptr;
    self->busy = true;
    try {
        Given given;
        if (read_arguments(self, items, count, given)) {
            begin(self, given.version);
            if (self->engine->open) {  // some filter only Python can ask
                result = Py_NewRef(Py_None);
            } else {
                const Taken taken = run(self, given);
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
    self->busy = false;
    return result;
}

PyObject* plane_arm(Plane* self, PyObject* arguments) {
    PyObject *head, *version, *routes;
    if (!PyArg_ParseTuple(arguments, "SSS", &head, &version, &routes) || is_used(self)) return nullptr;
    try {
        State& state = *self->state;
        if (!text_of(head, state.head) || !text_of(version, state.version) || !text_of(routes, state.routes)) return nullptr;
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
    {"arm", reinterpret_cast<PyCFunction>(plane_arm), METH_VARARGS, "arm(head, version, routes)"},
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

// The extension module, and its first type: `Engine` holds filters under numbers and says which of them match.
#include "engine.hpp"

#include <datetime.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <new>

#include "text.hpp"

#ifdef Py_GIL_DISABLED
#error "the engine needs the global interpreter lock"
#endif

namespace {

using namespace tidings;

constexpr long INTERFACE = 8;  // as in __init__.py

// A constraint that only Python can judge.
struct Question {
    PyObject* passes;
    PyObject* name;
};

// --- from Python's operands to tests --------------------------------------------------------------------

bool refused(const char* why) {
    PyErr_SetString(PyExc_ValueError, why);
    return false;
}

bool number_of(PyObject* object, Kind kind, Number& into) {
    if (kind == Kind::Boolean) {
        if (!PyBool_Check(object)) return refused("not a boolean");
        into = {object == Py_True ? 1.0 : 0.0, 0};
        return true;
    }
    if (PyFloat_CheckExact(object) && kind == Kind::Number) {
        const double value = PyFloat_AS_DOUBLE(object);
        if (!std::isfinite(value)) return refused("a number that does not compare");
        into = number(value);
        return true;
    }
    if (!PyLong_CheckExact(object)) return refused("not a number");
    int overflow;
    const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
    if (overflow) return refused("a number of more than 64 bits");
    if (value == -1 && PyErr_Occurred()) return false;
    into = number(static_cast<int64_t>(value));
    return true;
}

bool bytes_of(PyObject* object, Kind kind, View& into) {
    if (kind == Kind::Bytes) {
        if (!PyBytes_CheckExact(object)) return refused("not bytes");
        into = {PyBytes_AS_STRING(object), static_cast<size_t>(PyBytes_GET_SIZE(object))};
        return true;
    }
    Py_ssize_t size;
    if (!PyUnicode_CheckExact(object)) return refused("not a text");
    const char* text = PyUnicode_AsUTF8AndSize(object, &size);
    if (text == nullptr) return false;
    into = {text, static_cast<size_t>(size)};
    return true;
}

Place stored(std::string& operands, View bytes) {
    const Place place{static_cast<uint32_t>(operands.size()), static_cast<uint32_t>(bytes.size)};
    operands.append(bytes.at, bytes.size);
    return place;
}

bool range_of(PyObject* given, int sides, Test& test, std::string& operands) {
    PyObject* bounds[2] = {PyTuple_GET_ITEM(given, 0), PyTuple_GET_ITEM(given, 1)};
    test.has_low = bounds[0] != Py_None;
    test.has_high = bounds[1] != Py_None;
    test.low_open = sides & 1;
    test.high_open = sides & 2;
    if (test.is_numeric()) {
        constexpr double infinity = std::numeric_limits<double>::infinity();
        test.low = {-infinity, 0};
        test.high = {infinity, 0};
        if (test.has_low && !number_of(bounds[0], test.kind, test.low)) return false;
        if (test.has_high && !number_of(bounds[1], test.kind, test.high)) return false;
        test.low.rest += test.low_open;
        test.high.rest -= test.high_open;
        return true;
    }
    View view;
    test.first = test.second = {0, 0};
    if (test.has_low) {
        if (!bytes_of(bounds[0], test.kind, view)) return false;
        test.first = stored(operands, view);
    }
    if (test.has_high) {
        if (!bytes_of(bounds[1], test.kind, view)) return false;
        test.second = stored(operands, view);
    }
    return true;
}

bool members_of(PyObject* given, Test& test, std::string& operands) {
    const auto count = static_cast<size_t>(PyTuple_GET_SIZE(given));
    test.count = static_cast<uint32_t>(count);
    if (test.is_numeric()) {
        std::vector<Number> numbers(count);
        for (size_t n = 0; n < count; ++n)
            if (!number_of(PyTuple_GET_ITEM(given, n), test.kind, numbers[n])) return false;
        std::sort(numbers.begin(), numbers.end());
        test.first = stored(operands, {reinterpret_cast<const char*>(numbers.data()), count * sizeof(Number)});
        return true;
    }
    std::vector<View> views(count);
    for (size_t n = 0; n < count; ++n)
        if (!bytes_of(PyTuple_GET_ITEM(given, n), test.kind, views[n])) return false;
    std::sort(views.begin(), views.end());
    std::vector<Place> places(count);
    for (size_t n = 0; n < count; ++n) places[n] = stored(operands, views[n]);
    test.first = stored(operands, {reinterpret_cast<const char*>(places.data()), count * sizeof(Place)});
    return true;
}

bool pattern_of(PyObject* given, Test& test, std::string& operands) {
    std::string pattern;
    for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(given); ++n) {
        PyObject* token = PyTuple_GET_ITEM(given, n);
        View literal{nullptr, 0};
        if (token == Py_None) {
            Pattern::append(pattern, Pattern::Any);
        } else if (token == Py_True) {
            Pattern::append(pattern, Pattern::One);
        } else if (bytes_of(token, Kind::Text, literal)) {
            Pattern::append(pattern, Pattern::Literal, literal);
        } else {
            return false;
        }
    }
    test.first = stored(operands, {pattern.data(), pattern.size()});
    return true;
}

// A test from (name, operator, negated, kind, which bounds are open, operands).
bool test_of(PyObject* given, Index& index, Test& test, std::string& operands) {
    PyObject *name, *arguments;
    int op, negated, kind, sides;
    if (!PyTuple_Check(given)) return refused("not a test");
    if (!PyArg_ParseTuple(given, "UipiiO!", &name, &op, &negated, &kind, &sides, &PyTuple_Type, &arguments)) return false;
    if (op < 0 || op > static_cast<int>(Op::Ask) || kind < 0 || kind >= KINDS) return refused("no such operator or kind");
    View view;
    if (!bytes_of(name, Kind::Text, view)) return false;
    const Py_ssize_t count = PyTuple_GET_SIZE(arguments);
    test.op = static_cast<Op>(op);
    test.kind = static_cast<Kind>(kind);
    test.negated = negated;
    const bool has_kind = test.kind != Kind::Missing;
    bool done = false;
    switch (test.op) {
        case Op::Exists: case Op::Null: done = true; break;
        case Op::Ask: {
            if (count != 1) return refused("a question is one callable");
            auto* question = new Question{PyTuple_GET_ITEM(arguments, 0), name};
            Py_INCREF(question->passes);
            Py_INCREF(question->name);
            test.asked = question;
            done = true;
            break;
        }
        case Op::Range: done = has_kind && count == 2 && range_of(arguments, sides, test, operands); break;
        case Op::In: done = has_kind && members_of(arguments, test, operands); break;
        case Op::Like: done = test.kind == Kind::Text && pattern_of(arguments, test, operands); break;
        case Op::Equal:
            if (has_kind && count == 1 && test.is_numeric()) {
                done = number_of(PyTuple_GET_ITEM(arguments, 0), test.kind, test.low);
                break;
            }
            [[fallthrough]];
        default:
            done = has_kind && !test.is_numeric() && count == 1 && bytes_of(PyTuple_GET_ITEM(arguments, 0), test.kind, view);
            if (done) test.first = stored(operands, view);
    }
    if (!done) return PyErr_Occurred() ? false : refused("operands that do not fit their operator");
    if (operands.size() > INT32_MAX) return refused("operands that are too large");
    bytes_of(name, Kind::Text, view);
    try {
        test.attribute = index.names.acquire(std::string(view.at, view.size));
    } catch (...) {
        if (test.op == Op::Ask) {
            auto* question = static_cast<Question*>(test.asked);
            Py_DECREF(question->passes);
            Py_DECREF(question->name);
            delete question;
        }
        throw;
    }
    return true;
}

void drop_questions(Conjunction& conjunction) {
    for (uint32_t at = 0; at < conjunction.count; ++at) {
        Test& test = conjunction.tests()[at];
        if (test.op != Op::Ask) continue;
        auto* question = static_cast<Question*>(test.asked);
        test.op = Op::Null;
        Py_DECREF(question->passes);
        Py_DECREF(question->name);
        delete question;
    }
}

// A conjunction from a sequence of tests; null with an exception set, and nothing acquired.
Conjunction::Owned conjunction_of(PyObject* given, Index& index) {
    PyObject* sequence = PySequence_Fast(given, "a conjunction is a sequence of tests");
    if (sequence == nullptr) return nullptr;
    std::vector<Test> tests;
    std::string operands;
    bool done = true;
    for (Py_ssize_t n = 0; done && n < PySequence_Fast_GET_SIZE(sequence); ++n) {
        Test test;
        done = test_of(PySequence_Fast_GET_ITEM(sequence, n), index, test, operands);
        if (done) tests.push_back(test);
    }
    Py_DECREF(sequence);
    // What costs least is tested first, so that the others are rarely needed.
    std::stable_sort(tests.begin(), tests.end(), [](const Test& a, const Test& b) {
        return std::make_pair(a.negated, a.op) < std::make_pair(b.negated, b.op);
    });
    auto conjunction = Conjunction::make(tests, {operands.data(), operands.size()});
    if (done) return conjunction;
    for (const Test& test : tests) index.names.release(test.attribute);
    drop_questions(*conjunction);
    return nullptr;
}

}  // namespace

namespace tidings {

bool is_busy(Engine* self) {
    const bool busy = self->busy || self->index == nullptr;
    if (busy) PyErr_SetString(PyExc_RuntimeError, "the index is in use: nothing may change or ask it while it matches");
    return busy;
}

bool matched(Engine* self, View body) {
    Index& index = *self->index;
    if (self->open || !index.body.read(body, index.names, index.reading)) return false;
    self->found->clear();
    Nobody nobody;
    return index.match(*self->found, nobody);
}

PyObject* keys_of(Engine* self) {
    const std::vector<uint32_t>& found = *self->found;
    self->busy = true;  // a new list may start the collector, and that anything
    PyObject* keys = PyList_New(static_cast<Py_ssize_t>(found.size()));
    self->busy = false;
    if (keys == nullptr) return nullptr;
    for (size_t at = 0; at < found.size(); ++at) {
        auto* key = static_cast<PyObject*>((*self->filters)[found[at]]->key);
        Py_INCREF(key);
        PyList_SET_ITEM(keys, static_cast<Py_ssize_t>(at), key);
    }
    return keys;
}

}  // namespace tidings

namespace {

// --- holding filters ------------------------------------------------------------------------------------

PyObject* engine_add(Engine* self, PyObject* arguments) {
    PyObject *key, *source, *given;
    if (!PyArg_ParseTuple(arguments, "OOO", &key, &source, &given) || is_busy(self)) return nullptr;
    try {
        auto filter = std::make_unique<Filter>();
        filter->open = given == Py_None;
        if (!filter->open) {
            PyObject* conjunctions = PySequence_Fast(given, "a filter is a sequence of conjunctions");
            if (conjunctions == nullptr) return nullptr;
            for (Py_ssize_t n = 0; n < PySequence_Fast_GET_SIZE(conjunctions); ++n) {
                auto one = conjunction_of(PySequence_Fast_GET_ITEM(conjunctions, n), *self->index);
                if (!one) {
                    for (const auto& earlier : filter->conjunctions) {
                        for (uint32_t at = 0; at < earlier->count; ++at)
                            self->index->names.release(earlier->tests()[at].attribute);
                        drop_questions(*earlier);
                    }
                    Py_DECREF(conjunctions);
                    return nullptr;
                }
                filter->conjunctions.push_back(std::move(one));
            }
            Py_DECREF(conjunctions);
        }
        if (self->free->empty()) {
            self->filters->push_back(nullptr);
            self->free->push_back(static_cast<uint32_t>(self->filters->size() - 1));
        }
        const uint32_t number = self->free->back();
        self->index->add(filter.get(), number);
        self->free->pop_back();
        self->open += filter->open;
        ++self->held;
        ++self->version;
        Py_INCREF(key);
        Py_INCREF(source);
        filter->key = key;
        filter->source = source;
        (*self->filters)[number] = filter.release();
        return PyLong_FromUnsignedLong(number);
    } catch (const std::bad_alloc&) {
        Py_FatalError("no memory for a filter");  // the index may be half changed
    }
}

void drop(Filter* filter) {
    Py_DECREF(static_cast<PyObject*>(filter->key));
    Py_DECREF(static_cast<PyObject*>(filter->source));
    delete filter;
}

PyObject* engine_remove(Engine* self, PyObject* argument) {
    const unsigned long number = PyLong_AsUnsignedLong(argument);
    if ((number == static_cast<unsigned long>(-1) && PyErr_Occurred()) || is_busy(self)) return nullptr;
    if (number >= self->filters->size() || (*self->filters)[number] == nullptr) {
        PyErr_SetObject(PyExc_KeyError, argument);
        return nullptr;
    }
    Filter* filter = (*self->filters)[number];
    std::vector<Question*> questions;
    try {
        for (const auto& conjunction : filter->conjunctions)
            for (uint32_t at = 0; at < conjunction->count; ++at)
                if (conjunction->tests()[at].op == Op::Ask)
                    questions.push_back(static_cast<Question*>(conjunction->tests()[at].asked));
        self->free->push_back(static_cast<uint32_t>(number));
        self->index->remove(filter);
    } catch (const std::bad_alloc&) {
        Py_FatalError("no memory to remove a filter");
    }
    (*self->filters)[number] = nullptr;
    self->open -= filter->open;
    --self->held;
    ++self->version;
    for (Question* question : questions) {  // the index is in order by now: whatever this runs may use it
        Py_DECREF(question->passes);
        Py_DECREF(question->name);
        delete question;
    }
    drop(filter);
    Py_RETURN_NONE;
}

PyObject* engine_items(Engine* self, PyObject*) {
    PyObject* items = PyList_New(0);
    if (items == nullptr) return nullptr;
    for (const Filter* filter : *self->filters) {
        if (filter == nullptr) continue;
        PyObject* pair = PyTuple_Pack(2, static_cast<PyObject*>(filter->key), static_cast<PyObject*>(filter->source));
        if (pair == nullptr || PyList_Append(items, pair)) {
            Py_XDECREF(pair);
            Py_DECREF(items);
            return nullptr;
        }
        Py_DECREF(pair);
    }
    return items;
}

PyObject* engine_review(Engine* self, PyObject* argument) {
    const size_t most = PyLong_AsSize_t(argument);
    if ((most == static_cast<size_t>(-1) && PyErr_Occurred()) || is_busy(self)) return nullptr;
    return PyLong_FromSize_t(self->index->review(most));
}

PyObject* engine_statistics(Engine* self, PyObject*) {
    if (is_busy(self)) return nullptr;
    const Index& index = *self->index;
    return Py_BuildValue(
        "{s:n,s:n,s:n,s:n,s:n,s:n,s:n}", "filters", static_cast<Py_ssize_t>(self->held), "conjunctions",
        static_cast<Py_ssize_t>(index.conjunctions() + self->open), "open", static_cast<Py_ssize_t>(self->open),
        "always", static_cast<Py_ssize_t>(index.always()), "attributes", static_cast<Py_ssize_t>(index.names.used()),
        "in_segments", static_cast<Py_ssize_t>(index.in_segments()), "waiting", static_cast<Py_ssize_t>(index.waiting()));
}

// --- matching -------------------------------------------------------------------------------------------

class Python : public Asked {
public:
    explicit Python(PyObject* attributes) : attributes_(attributes) {}

    int operator()(void* asked) override {
        const auto* question = static_cast<const Question*>(asked);
        PyObject* value = PyDict_GetItemWithError(attributes_, question->name);
        if (value == nullptr && PyErr_Occurred()) return -1;
        PyObject* answer = PyObject_CallOneArg(question->passes, value ? value : Py_None);
        if (answer == nullptr) return -1;
        const int passed = PyObject_IsTrue(answer);
        Py_DECREF(answer);
        return passed;
    }

private:
    PyObject* attributes_;
};

PyObject* engine_match_body(Engine* self, PyObject* body) {
    if (is_busy(self)) return nullptr;
    if (!PyBytes_CheckExact(body)) Py_RETURN_NONE;
    try {
        const View bytes{PyBytes_AS_STRING(body), static_cast<size_t>(PyBytes_GET_SIZE(body))};
        if (!matched(self, bytes)) Py_RETURN_NONE;
        return keys_of(self);
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
}

// Days since 1970, by the calendar that Python extends to the year 1.
int64_t days(int64_t year, int64_t month, int64_t day) {
    year -= month <= 2;
    const int64_t era = (year >= 0 ? year : year - 399) / 400, of_era = year - era * 400;
    const int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

bool time_of(PyObject* object, Value& value) {
    if (PyDateTime_DATE_GET_TZINFO(object) != PyDateTime_TimeZone_UTC) return false;
    const int64_t date = days(PyDateTime_GET_YEAR(object), PyDateTime_GET_MONTH(object), PyDateTime_GET_DAY(object));
    const int64_t second = date * 86400 + PyDateTime_DATE_GET_HOUR(object) * 3600 +
                           PyDateTime_DATE_GET_MINUTE(object) * 60 + PyDateTime_DATE_GET_SECOND(object);
    value = Value(Kind::Time, number(second * 1000000 + PyDateTime_DATE_GET_MICROSECOND(object)));
    return true;
}

// The parts of a location, joined. False without an exception if they are none that can be compared.
bool place_of(Engine* self, PyObject* object, Value& value) {
    PyObject* parts = PyObject_GetAttrString(object, "parts");
    if (parts == nullptr) return false;
    std::string path;
    bool done = PyTuple_CheckExact(parts);
    for (Py_ssize_t n = 0; done && n < PyTuple_GET_SIZE(parts); ++n) {
        View part;
        done = bytes_of(PyTuple_GET_ITEM(parts, n), Kind::Text, part);
        if (!done) break;
        if (n) path.push_back('/');
        path.append(part.at, part.size);
    }
    Py_DECREF(parts);
    if (!done) return false;
    self->paths->push_back(std::move(path));
    value = Value(Kind::Place, View{self->paths->back().data(), self->paths->back().size()});
    return true;
}

// A scalar as Python has it; false if the engine does not know it, with or without an exception.
bool scalar_of(Engine* self, PyObject* object, Value& value) {
    View view;
    if (PyUnicode_CheckExact(object)) {
        if (!bytes_of(object, Kind::Text, view)) return false;
        value = Value(Kind::Text, view);
    } else if (PyFloat_CheckExact(object) || PyLong_CheckExact(object)) {
        Number found;
        if (!number_of(object, Kind::Number, found)) return false;
        value = Value(Kind::Number, found);
    } else if (PyBool_Check(object)) {
        value = Value(Kind::Boolean, Number{object == Py_True ? 1.0 : 0.0, 0});
    } else if (PyBytes_CheckExact(object)) {
        bytes_of(object, Kind::Bytes, view);
        value = Value(Kind::Bytes, view);
    } else if (PyDateTime_CheckExact(object)) {
        return time_of(object, value);
    } else {
        return reinterpret_cast<PyObject*>(Py_TYPE(object)) == self->location && place_of(self, object, value);
    }
    return true;
}

bool read_attributes(Engine* self, PyObject* attributes) {
    Index& index = *self->index;
    Reading& reading = index.reading;
    reading.begin(index.names.size());
    self->paths->clear();
    PyObject *name, *object;
    Py_ssize_t at = 0;
    while (PyDict_Next(attributes, &at, &name, &object)) {
        View view;
        if (!bytes_of(name, Kind::Text, view)) return false;
        const uint32_t number = index.names.find(view);
        if (number == Names::UNKNOWN) continue;
        Value value;
        if (PyTuple_CheckExact(object)) {
            reading.begin_list();
            for (Py_ssize_t n = 0; n < PyTuple_GET_SIZE(object); ++n) {
                if (!scalar_of(self, PyTuple_GET_ITEM(object, n), value)) return false;
                reading.put_item(value);
            }
            reading.put_list(number);
        } else {
            if (!scalar_of(self, object, value)) return false;
            reading.put(number, value);
            if (!value.is_numeric()) reading.weight += value.bytes.size;
        }
    }
    reading.end();
    return true;
}

PyObject* engine_match(Engine* self, PyObject* arguments) {
    PyObject *attributes, *notification;
    if (!PyArg_ParseTuple(arguments, "O!O", &PyDict_Type, &attributes, &notification) || is_busy(self)) return nullptr;
    try {
        if (!read_attributes(self, attributes)) {
            if (PyErr_Occurred() && !PyErr_ExceptionMatches(PyExc_ValueError)) return nullptr;
            PyErr_Clear();  // something that only Python can compare
            Py_RETURN_NONE;
        }
        self->found->clear();
        self->busy = true;
        Python python(attributes);
        bool done = self->index->match(*self->found, python);
        if (done && self->open) {
            for (uint32_t number = 0; number < self->filters->size(); ++number) {
                const Filter* filter = (*self->filters)[number];
                if (filter == nullptr || !filter->open) continue;
                PyObject* answer = PyObject_CallMethod(static_cast<PyObject*>(filter->source), "matches", "O", notification);
                const int passed = answer == nullptr ? -1 : PyObject_IsTrue(answer);
                Py_XDECREF(answer);
                done = passed >= 0;
                if (!done) break;
                if (passed) self->found->push_back(number);
            }
        }
        self->busy = false;
        return done ? keys_of(self) : nullptr;
    } catch (const std::bad_alloc&) {
        self->busy = false;
        return PyErr_NoMemory();
    }
}

PyObject* engine_plane(Engine* self, PyObject*) {
    auto* module = PyType_GetModule(Py_TYPE(self));
    if (module == nullptr) return nullptr;
    auto* type = *static_cast<PyTypeObject**>(PyModule_GetState(module));
    if (type == nullptr) {
        PyErr_SetString(PyExc_RuntimeError, "the interpreter is ending");
        return nullptr;
    }
    return make_plane(type, self);
}

// --- the type -------------------------------------------------------------------------------------------

PyObject* engine_new(PyTypeObject* type, PyObject* arguments, PyObject*) {
    PyObject* location;
    unsigned int stride;
    if (!PyArg_ParseTuple(arguments, "O!I", &PyType_Type, &location, &stride)) return nullptr;
    if (stride == 0 || stride > 1000000) {
        PyErr_SetString(PyExc_ValueError, "the stride is a number from 1 to 1,000,000");
        return nullptr;
    }
    auto* self = reinterpret_cast<Engine*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    try {
        self->index = new Index(stride);
        self->filters = new std::vector<Filter*>();
        self->free = new std::vector<uint32_t>();
        self->found = new std::vector<uint32_t>();
        self->paths = new std::deque<std::string>();
    } catch (const std::bad_alloc&) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    Py_INCREF(location);
    self->location = location;
    return reinterpret_cast<PyObject*>(self);
}

int engine_traverse(Engine* self, visitproc visit, void* arg) {
    Py_VISIT(Py_TYPE(self));
    Py_VISIT(self->location);
    if (self->filters == nullptr) return 0;
    for (const Filter* filter : *self->filters) {
        if (filter == nullptr) continue;
        Py_VISIT(static_cast<PyObject*>(filter->key));
        Py_VISIT(static_cast<PyObject*>(filter->source));
        for (const auto& conjunction : filter->conjunctions)
            for (uint32_t at = 0; at < conjunction->count; ++at)
                if (conjunction->tests()[at].op == Op::Ask) Py_VISIT(static_cast<Question*>(conjunction->tests()[at].asked)->passes);
    }
    return 0;
}

int engine_clear(Engine* self) {
    Py_CLEAR(self->location);
    if (self->filters == nullptr) return 0;
    std::vector<Filter*> filters;
    filters.swap(*self->filters);
    self->free->clear();
    self->open = self->held = 0;
    ++self->version;
    delete self->index;
    self->index = new (std::nothrow) Index(1);  // whatever is dropped may still ask
    for (Filter* filter : filters) {
        if (filter == nullptr) continue;
        for (const auto& conjunction : filter->conjunctions) drop_questions(*conjunction);
    }
    for (Filter* filter : filters)
        if (filter != nullptr) drop(filter);
    return 0;
}

void engine_dealloc(Engine* self) {
    PyTypeObject* type = Py_TYPE(self);
    PyObject_GC_UnTrack(self);
    engine_clear(self);
    delete self->index;
    delete self->filters;
    delete self->free;
    delete self->found;
    delete self->paths;
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"add", reinterpret_cast<PyCFunction>(engine_add), METH_VARARGS, "add(key, filter, conjunctions) -> number"},
    {"remove", reinterpret_cast<PyCFunction>(engine_remove), METH_O, "remove(number)"},
    {"match", reinterpret_cast<PyCFunction>(engine_match), METH_VARARGS, "match(attributes, notification) -> keys, or None"},
    {"match_body", reinterpret_cast<PyCFunction>(engine_match_body), METH_O, "match_body(body) -> keys, or None"},
    {"plane", reinterpret_cast<PyCFunction>(engine_plane), METH_NOARGS, "plane() -> a plane over these filters"},
    {"items", reinterpret_cast<PyCFunction>(engine_items), METH_NOARGS, "items() -> keys and filters"},
    {"review", reinterpret_cast<PyCFunction>(engine_review), METH_O, "review(most) -> how many wait"},
    {"statistics", reinterpret_cast<PyCFunction>(engine_statistics), METH_NOARGS, "statistics() -> counts"},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(engine_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(engine_dealloc)},
    {Py_tp_traverse, reinterpret_cast<void*>(engine_traverse)},
    {Py_tp_clear, reinterpret_cast<void*>(engine_clear)},
    {Py_tp_methods, methods},
    {0, nullptr},
};

PyType_Spec spec = {"tidings._native._engine.Engine", sizeof(Engine), 0, Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC, slots};

int execute(PyObject* module) {
    if (PyInterpreterState_Get() != PyInterpreterState_Main()) {
        PyErr_SetString(PyExc_ImportError, "the engine of Tidings cannot be used in a sub-interpreter");
        return -1;
    }
    PyDateTime_IMPORT;
    if (PyDateTimeAPI == nullptr) return -1;
    PyObject* type = PyType_FromModuleAndSpec(module, &spec, nullptr);
    if (type == nullptr) return -1;
    int failed = PyModule_AddObjectRef(module, "Engine", type);
    Py_DECREF(type);
    PyObject* receiver = PyType_FromModuleAndSpec(module, &receiver_spec, nullptr);
    if (receiver == nullptr) return -1;
    failed |= PyModule_AddObjectRef(module, "Receiver", receiver);
    Py_DECREF(receiver);
    PyObject* plane = PyType_FromModuleAndSpec(module, &plane_spec, nullptr);
    if (plane == nullptr) return -1;
    *static_cast<PyObject**>(PyModule_GetState(module)) = plane;  // the state of the module: the type of its planes
    PyObject* columns = PyType_FromModuleAndSpec(module, &columns_spec, nullptr);
    if (columns == nullptr) return -1;
    const int unnamed = PyModule_AddObjectRef(module, "Columns", columns);
    Py_DECREF(columns);
    return failed || unnamed ? -1 : PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

// --- what a client publishes ----------------------------------------------------------------------------

// Whether these are attributes of ordinary kinds under names that are known; what is no dict or no set is none.
PyObject* plain_kinds(PyObject*, PyObject* const* items, Py_ssize_t count) {
    if (count != 2 || !PyDict_CheckExact(items[0]) || !PySet_Check(items[1])) {
        PyErr_SetString(PyExc_TypeError, "plain_kinds is given a dict and a set");
        return nullptr;
    }
    if (PyDict_GET_SIZE(items[0]) > static_cast<Py_ssize_t>(MAX_ATTRIBUTES)) Py_RETURN_FALSE;
    PyObject *name, *value;
    Py_ssize_t at = 0;
    while (PyDict_Next(items[0], &at, &name, &value)) {
        if (!PyUnicode_CheckExact(name)) Py_RETURN_FALSE;
        if (PyFloat_CheckExact(value)) {
            if (!std::isfinite(PyFloat_AS_DOUBLE(value))) Py_RETURN_FALSE;
        } else if (PyLong_CheckExact(value)) {
            int overflow;
            PyLong_AsLongLongAndOverflow(value, &overflow);
            if (overflow) Py_RETURN_FALSE;
        } else if (!PyUnicode_CheckExact(value) && !PyBool_Check(value)) {
            Py_RETURN_FALSE;
        }
        Py_INCREF(name);  // a set may compare, and that may run anything: the value is not looked at any more
        const int known = PySet_Contains(items[1], name);
        Py_DECREF(name);
        if (known < 0) return nullptr;
        if (!known) Py_RETURN_FALSE;
    }
    Py_RETURN_TRUE;
}

PyMethodDef functions[] = {
    {"plain_kinds", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(plain_kinds)), METH_FASTCALL,
     "plain_kinds(attributes, known) -> bool"},
    {nullptr, nullptr, 0, nullptr},
};

PyModuleDef_Slot module_slots[] = {
    {Py_mod_exec, reinterpret_cast<void*>(execute)},
#ifdef Py_mod_multiple_interpreters
    {Py_mod_multiple_interpreters, Py_MOD_MULTIPLE_INTERPRETERS_NOT_SUPPORTED},
#endif
    {0, nullptr},
};

int module_traverse(PyObject* module, visitproc visit, void* arg) {
    auto* plane = static_cast<PyObject**>(PyModule_GetState(module));
    if (plane != nullptr) Py_VISIT(*plane);
    return 0;
}

int module_clear(PyObject* module) {
    auto* plane = static_cast<PyObject**>(PyModule_GetState(module));
    if (plane != nullptr) Py_CLEAR(*plane);
    return 0;
}

PyModuleDef definition = {
    PyModuleDef_HEAD_INIT, "_engine", "The compiled engine of Tidings.", sizeof(PyObject*), functions, module_slots,
    module_traverse, module_clear, nullptr,
};

}  // namespace

PyMODINIT_FUNC PyInit__engine() { return PyModuleDef_Init(&definition); }

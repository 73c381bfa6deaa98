// What the types of the module share.
#pragma once

#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <deque>
#include <string>
#include <vector>

#include "index.hpp"

namespace tidings {

// The Python type that holds filters under numbers.
struct Engine {
    PyObject_HEAD
    Index* index;
    std::vector<Filter*>* filters;  // by number
    std::vector<uint32_t>* free;
    std::vector<uint32_t>* found;
    std::deque<std::string>* paths;  // locations as they are compared, of the notification at hand
    PyObject* location;               // the type
    size_t open;
    size_t held;
    uint64_t version;  // counts changes: a number may mean another filter then
    bool busy;
};

// Never asks: whoever has only the body cannot answer.
class Nobody : public Asked {
public:
    int operator()(void*) override { return -1; }
};

// Whether the index may not be used now; then an exception is set.
bool is_busy(Engine* self);

// Which filters match a body: their numbers are in `found`. False: it must be decoded.
bool matched(Engine* self, View body);

// The keys of the filters in `found`, as a new list.
PyObject* keys_of(Engine* self);

extern PyType_Spec plane_spec;
extern PyType_Spec receiver_spec;
extern PyType_Spec columns_spec;

// A plane over an engine; `type` was made of `plane_spec`.
PyObject* make_plane(PyTypeObject* type, Engine* engine);

}  // namespace tidings

// The Python type `Columns`: batches of a log in, the buffers of Arrow arrays out. See columns.hpp.
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include <memory>
#include <new>

#include "columns.hpp"
#include "engine.hpp"

namespace tidings {

namespace {

struct Gathered {
    PyObject_HEAD
    Columns* columns;
    std::vector<PyObject*>* batches;  // the bytes that the columns point into
    size_t promoted;
    bool busy;  // while another thread takes them
};

void forget(Gathered* self) {
    if (self->columns != nullptr) self->columns->clear();
    if (self->batches == nullptr) return;
    for (PyObject* batch : *self->batches) Py_DECREF(batch);
    self->batches->clear();
}

bool is_used(const Gathered* self) {
    if (self->busy) PyErr_SetString(PyExc_RuntimeError, "the columns are in use");
    return self->busy;
}

PyObject* gathered_add(Gathered* self, PyObject* batch) {
    if (is_used(self)) return nullptr;
    if (!PyBytes_CheckExact(batch)) {
        PyErr_SetString(PyExc_TypeError, "a batch is bytes");
        return nullptr;
    }
    Columns::Added added{};
    try {
        if (self->batches->size() == self->batches->capacity()) self->batches->reserve(2 * self->batches->size() + 16);
        const View view{PyBytes_AS_STRING(batch), static_cast<size_t>(PyBytes_GET_SIZE(batch))};
        if (!self->columns->add(view, added)) Py_RETURN_NONE;
    } catch (const std::bad_alloc&) {
        return PyErr_NoMemory();
    }
    self->batches->push_back(Py_NewRef(batch));
    return Py_BuildValue("nnn", static_cast<Py_ssize_t>(added.rows), static_cast<Py_ssize_t>(added.bodies),
                         static_cast<Py_ssize_t>(added.spread));
}

PyObject* as_bytes(const std::string& buffer) {
    return PyBytes_FromStringAndSize(buffer.data(), static_cast<Py_ssize_t>(buffer.size()));
}

PyObject* as_tuple(const Buffers& written) {
    if (written.is_null) Py_RETURN_NONE;
    PyObject* valid = written.nulls ? as_bytes(written.valid) : Py_NewRef(Py_None);
    PyObject* values = valid ? as_bytes(written.values) : nullptr;
    PyObject* data = values ? (written.data ? as_bytes(*written.data) : Py_NewRef(Py_None)) : nullptr;
    if (data == nullptr) {
        Py_XDECREF(valid);
        Py_XDECREF(values);
        return nullptr;
    }
    return Py_BuildValue("nNNN", static_cast<Py_ssize_t>(written.nulls), valid, values, data);
}

PyObject* gathered_take(Gathered* self, PyObject*) {
    if (is_used(self)) return nullptr;
    std::vector<Buffers> columns;
    bool enough = true;
    self->busy = true;
    Py_BEGIN_ALLOW_THREADS
    try {
        columns = self->columns->take();
    } catch (const std::bad_alloc&) {
        enough = false;
    }
    Py_END_ALLOW_THREADS
    self->busy = false;
    if (!enough) return PyErr_NoMemory();
    PyObject* incomplete = PyList_New(0);
    PyObject* taken = incomplete ? PyList_New(static_cast<Py_ssize_t>(columns.size())) : nullptr;
    bool failed = taken == nullptr;
    for (size_t at = 0; !failed && at < self->promoted; ++at) {
        if (self->columns->is_complete(at)) continue;
        PyObject* number = PyLong_FromSize_t(at);
        failed = number == nullptr || PyList_Append(incomplete, number) != 0;
        Py_XDECREF(number);
    }
    for (size_t at = 0; !failed && at < columns.size(); ++at) {
        PyObject* one = as_tuple(columns[at]);
        columns[at] = Buffers();
        failed = one == nullptr;
        if (!failed) PyList_SET_ITEM(taken, static_cast<Py_ssize_t>(at), one);
    }
    if (failed) {
        Py_XDECREF(incomplete);
        Py_XDECREF(taken);
        return nullptr;
    }
    const auto rows = static_cast<Py_ssize_t>(self->columns->rows());
    forget(self);
    return Py_BuildValue("nNN", rows, taken, incomplete);
}

PyObject* gathered_new(PyTypeObject* type, PyObject* arguments, PyObject*) {
    const char* origin;
    Py_ssize_t size;
    PyObject* promoted;
    int with_body;
    if (!PyArg_ParseTuple(arguments, "s#O!p", &origin, &size, &PyTuple_Type, &promoted, &with_body)) return nullptr;
    auto* self = reinterpret_cast<Gathered*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    try {
        std::vector<PromotedColumn> columns;
        for (Py_ssize_t at = 0; at < PyTuple_GET_SIZE(promoted); ++at) {
            const char* name;
            Py_ssize_t length;
            unsigned char form;
            PyObject* one = PyTuple_GET_ITEM(promoted, at);
            if (!PyTuple_Check(one)) PyErr_SetString(PyExc_TypeError, "a promoted column is a name and a form");
            if (PyErr_Occurred() || !PyArg_ParseTuple(one, "s#b", &name, &length, &form) || form >= FORMS) {
                if (!PyErr_Occurred()) PyErr_SetString(PyExc_ValueError, "there is no such form");
                Py_DECREF(self);
                return nullptr;
            }
            columns.push_back({std::string(name, static_cast<size_t>(length)), form});
        }
        self->promoted = columns.size();
        self->batches = new std::vector<PyObject*>();
        self->columns = new Columns(std::string(origin, static_cast<size_t>(size)), std::move(columns), with_body != 0);
    } catch (const std::bad_alloc&) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return reinterpret_cast<PyObject*>(self);
}

void gathered_dealloc(Gathered* self) {
    PyTypeObject* type = Py_TYPE(self);
    forget(self);
    delete self->columns;
    delete self->batches;
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"add", reinterpret_cast<PyCFunction>(gathered_add), METH_O, "add(batch) -> rows, bytes of bodies, bytes of names; or None"},
    {"take", reinterpret_cast<PyCFunction>(gathered_take), METH_NOARGS, "take() -> rows, columns, incomplete ones"},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(gathered_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(gathered_dealloc)},
    {Py_tp_methods, methods},
    {0, nullptr},
};

}  // namespace

PyType_Spec columns_spec = {"tidings._native._engine.Columns", sizeof(Gathered), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace tidings

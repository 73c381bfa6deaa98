// The receiver: from the bytes that a broker sends to a client to notifications, many at once.
//
// Theory of operation
// -------------------
// As the data plane, it takes *runs* and keeps nothing. A run are deliveries that follow each other in one read, of one
// origin and its epoch, of one publisher, by the same routes and for the same subscriptions, whose numbers of both kinds
// grow. It ends before the first part that is anything else, and Python does that one. What a run means is decided in
// Python (tidings.broker.LocalBroker): in what order, whether it came before, who wants it.
//
// A notification holds its body, which was checked as a whole: every name and value. An attribute is made when it is
// asked for; whoever asks for more than a few has all of them decoded, once, by the decoder of Python. So a value that is
// rare (a list, a time, a location) is never made here.
//
// The type of these notifications is a class of Python with slots, given by `hold`: the slots are read and written here by
// their place, and two of its attributes (`__getitem__`, `_attributes`) are put in its place by descriptors of this file.
// An interpreter has one such class, so what is known of it lies in one place.
#include "engine.hpp"

#include <structmember.h>

#include <new>

#include "body.hpp"
#include "cursor.hpp"
#include "frame.hpp"

namespace tidings {

namespace {

constexpr Py_ssize_t LOOKS = 3;  // attributes that are made one by one; then all of them are decoded

// The class of received notifications.
struct Held {
    PyTypeObject* type = nullptr;
    PyObject* decode = nullptr;  // from a body to all attributes
    Py_ssize_t body = 0, looks = 0, attributes = 0;  // where the slots are
};

Held held;

PyObject*& slot(PyObject* self, Py_ssize_t at) {
    return *reinterpret_cast<PyObject**>(reinterpret_cast<char*>(self) + at);
}

View view_of(PyObject* bytes) { return {PyBytes_AS_STRING(bytes), static_cast<size_t>(PyBytes_GET_SIZE(bytes))}; }

// All attributes, decoded now if they have not been; borrowed. Null with an exception set.
PyObject* attributes_of(PyObject* self) {
    if (PyObject* known = slot(self, held.attributes)) return known;
    PyObject* body = slot(self, held.body);
    if (body == nullptr || held.decode == nullptr) {
        PyErr_SetString(PyExc_AttributeError, "the notification has no attributes");
        return nullptr;
    }
    Py_INCREF(body);
    PyObject* found = PyObject_CallOneArg(held.decode, body);
    Py_DECREF(body);
    if (found == nullptr) return nullptr;
    if (PyObject* known = slot(self, held.attributes)) {  // meanwhile, by another thread
        Py_DECREF(found);
        return known;
    }
    slot(self, held.attributes) = found;
    Py_CLEAR(slot(self, held.body));
    return found;
}

// A value of one of the ordinary kinds; null without an exception if it is of another.
PyObject* value_at(Cursor& cursor) {
    unsigned tag;
    View view;
    if (!cursor.byte(tag)) return nullptr;
    if (tag < 0x80) return PyLong_FromLong(static_cast<long>(tag));
    if (tag >= 0xE0) return PyLong_FromLong(static_cast<long>(tag) - 256);
    if (cursor.text(tag, view)) return PyUnicode_DecodeUTF8(view.at, static_cast<Py_ssize_t>(view.size), nullptr);
    switch (tag) {
        case 0xC2: return Py_NewRef(Py_False);
        case 0xC3: return Py_NewRef(Py_True);
        case 0xC4: case 0xC5: case 0xC6:
            if (!cursor.sized(1 << (tag - 0xC4), view)) return nullptr;
            return PyBytes_FromStringAndSize(view.at, static_cast<Py_ssize_t>(view.size));
        case 0xCA: case 0xCB: {
            double value;
            return floating(cursor, tag == 0xCA ? 4 : 8, value) ? PyFloat_FromDouble(value) : nullptr;
        }
        case 0xCC: case 0xCD: case 0xCE: case 0xCF:
        case 0xD0: case 0xD1: case 0xD2: case 0xD3: {
            int64_t value;
            return integer(cursor, tag, value) ? PyLong_FromLongLong(value) : nullptr;
        }
        default: return nullptr;
    }
}

// The value of an attribute, made from the body; null without an exception: there is none, or Python must say.
PyObject* made(View body, View name) {
    Cursor cursor(body);
    unsigned tag;
    uint64_t count;
    if (!cursor.byte(tag) || !counted(cursor, tag, 0x80, 0xDE, count)) return nullptr;
    for (; count; --count) {
        View found;
        if (!cursor.byte(tag) || !cursor.text(tag, found)) return nullptr;
        if (found == name) return value_at(cursor);
        if (!skip(cursor, 1)) return nullptr;
    }
    return nullptr;
}

PyObject* get_item(PyObject* self, PyObject* name) {
    PyObject* body = slot(self, held.body);
    if (slot(self, held.attributes) == nullptr && body != nullptr && PyBytes_CheckExact(body) && PyUnicode_CheckExact(name)) {
        PyObject*& looks = slot(self, held.looks);
        const Py_ssize_t before = looks == nullptr ? 0 : PyLong_AsSsize_t(looks);
        if (before >= 0 && before < LOOKS) {
            Py_ssize_t size;
            const char* text = PyUnicode_AsUTF8AndSize(name, &size);
            PyObject* count = text == nullptr ? nullptr : PyLong_FromSsize_t(before + 1);  // a small one: there already
            if (count != nullptr) {
                Py_XSETREF(looks, count);
                PyObject* value = made(view_of(body), {text, static_cast<size_t>(size)});
                if (value != nullptr) return value;
            }
        }
        PyErr_Clear();
    }
    PyObject* all = attributes_of(self);
    if (all == nullptr) return nullptr;
    Py_INCREF(all);
    PyObject* value = PyObject_GetItem(all, name);
    Py_DECREF(all);
    return value;
}

PyObject* get_attributes(PyObject* self, void*) {
    PyObject* all = attributes_of(self);
    Py_XINCREF(all);
    return all;
}

// For Python, whose methods make a notification of attributes that are known.
int set_attributes(PyObject* self, PyObject* given, void*) {
    Py_XINCREF(given);
    Py_XSETREF(slot(self, held.attributes), given);
    return 0;
}

PyMethodDef get_item_method = {"__getitem__", get_item, METH_O | METH_COEXIST, "The value of an attribute."};
PyGetSetDef attributes_getter = {"_attributes", get_attributes, set_attributes, "All attributes.", nullptr};

// --- runs -----------------------------------------------------------------------------------------------

struct Receiver {
    PyObject_HEAD
    BodyReader* reader;
    Names* names;  // none
    Reading* reading;
    PyObject *routes, *closing, *origin, *publisher;  // of the last run
    bool busy;
};

// The same object as last time if it is the same text or bytes; null with an exception set.
PyObject* same(PyObject*& last, View now, bool is_text) {
    if (last != nullptr) {
        Py_ssize_t size;
        const char* text = is_text ? PyUnicode_AsUTF8AndSize(last, &size) : PyBytes_AS_STRING(last);
        if (text == nullptr) return nullptr;
        if (!is_text) size = PyBytes_GET_SIZE(last);
        if (View{text, static_cast<size_t>(size)} == now) return Py_NewRef(last);
    }
    const auto size = static_cast<Py_ssize_t>(now.size);
    PyObject* made = is_text ? PyUnicode_DecodeUTF8(now.at, size, nullptr) : PyBytes_FromStringAndSize(now.at, size);
    if (made != nullptr) Py_XSETREF(last, Py_NewRef(made));
    return made;
}

PyObject* notification(View body) {
    PyObject* self = held.type->tp_alloc(held.type, 0);
    if (self == nullptr) return nullptr;
    PyObject* bytes = PyBytes_FromStringAndSize(body.at, static_cast<Py_ssize_t>(body.size));
    if (bytes == nullptr) {
        Py_DECREF(self);
        return nullptr;
    }
    slot(self, held.body) = bytes;
    PyObject_GC_UnTrack(self);  // attributes are scalars and tuples of these: nothing in it leads back to it
    return self;
}

// Add the next to a run; false with an exception set.
bool add(PyObject* numbers, PyObject* notifications, const Delivery& one) {
    PyObject* number = PyLong_FromUnsignedLongLong(one.publisher_seq);
    if (number == nullptr) return false;
    bool done = PyList_Append(numbers, number) == 0;
    Py_DECREF(number);
    PyObject* made = done ? notification(one.body) : nullptr;
    if (made == nullptr) return false;
    done = PyList_Append(notifications, made) == 0;
    Py_DECREF(made);
    return done;
}

PyObject* taken(Receiver* self, View data, size_t at, size_t most, PyObject* numbers, PyObject* notifications) {
    Delivery first, last;
    size_t count = 0;
    while (count < most) {
        unsigned kind;
        const View rest{data.at + at, data.size - at};
        const size_t size = whole_part(rest, kind);
        Delivery one;
        if (!size || kind || !is_delivery({rest.at + PART_HEADER, size - PART_HEADER}, count ? &first : nullptr, one)) break;
        if (count) {
            if (one.epoch != first.epoch || one.seq <= last.seq || one.publisher_seq <= last.publisher_seq) break;
            if (!(one.origin == first.origin) || !(one.publisher == first.publisher)) break;
            if (!(one.routes == first.routes) || !(one.closing == first.closing)) break;
        }
        if (!self->reader->read(one.body, *self->names, *self->reading)) break;
        if (!add(numbers, notifications, one)) return nullptr;
        if (!count) first = one;
        last = one;
        ++count;
        at += size;
    }
    if (!count) Py_RETURN_NONE;
    PyObject* routes = same(self->routes, first.routes, false);
    PyObject* closing = routes ? same(self->closing, first.closing, false) : nullptr;
    PyObject* origin = closing ? same(self->origin, first.origin, true) : nullptr;
    PyObject* publisher = origin ? same(self->publisher, first.publisher, true) : nullptr;
    PyObject* result = nullptr;
    if (publisher != nullptr)
        result = Py_BuildValue("(nOOOKKKOOO)", static_cast<Py_ssize_t>(at), routes, closing, origin,
                               static_cast<unsigned long long>(first.epoch), static_cast<unsigned long long>(first.seq),
                               static_cast<unsigned long long>(last.seq), publisher, numbers, notifications);
    Py_XDECREF(routes);
    Py_XDECREF(closing);
    Py_XDECREF(origin);
    Py_XDECREF(publisher);
    return result;
}

PyObject* receiver_take(Receiver* self, PyObject* const* items, Py_ssize_t count) {
    if (count != 3 || !PyBytes_CheckExact(items[0])) {
        PyErr_SetString(PyExc_TypeError, "take is given bytes, a place and how many at most");
        return nullptr;
    }
    const View data = view_of(items[0]);
    const size_t at = PyLong_AsSize_t(items[1]), most = PyLong_AsSize_t(items[2]);
    if (PyErr_Occurred()) return nullptr;
    if (at > data.size || held.type == nullptr) {
        PyErr_SetString(PyExc_ValueError, "there is no such place in the data, or no class of notifications");
        return nullptr;
    }
    if (self->busy) Py_RETURN_NONE;  // the collector has run something that receives
    PyObject* numbers = PyList_New(0);
    PyObject* notifications = numbers ? PyList_New(0) : nullptr;
    PyObject* result = nullptr;
    self->busy = true;
    try {
        if (notifications != nullptr) result = taken(self, data, at, most, numbers, notifications);
    } catch (const std::bad_alloc&) {
        PyErr_NoMemory();
    }
    self->busy = false;
    Py_XDECREF(numbers);
    Py_XDECREF(notifications);
    return result;
}

PyObject* receiver_sound(PyObject*, PyObject* arguments) {
    PyObject* data;
    Py_ssize_t limit;
    if (!PyArg_ParseTuple(arguments, "Sn", &data, &limit)) return nullptr;
    return PyBool_FromLong(limit >= 0 && is_sound(view_of(data), static_cast<size_t>(limit)));
}

// --- the class of notifications -------------------------------------------------------------------------

// Where a slot of a class is; -1 with an exception set.
Py_ssize_t place_of(PyObject* type, const char* name) {
    PyObject* found = PyObject_GetAttrString(type, name);
    if (found == nullptr) return -1;
    Py_ssize_t place = -1;
    if (Py_IS_TYPE(found, &PyMemberDescr_Type)) {
        const PyMemberDef* member = reinterpret_cast<PyMemberDescrObject*>(found)->d_member;
        if (member->type == T_OBJECT_EX) place = member->offset;
    }
    Py_DECREF(found);
    if (place < 0) PyErr_Format(PyExc_TypeError, "%s is no slot", name);
    return place;
}

bool put(PyTypeObject* type, const char* name, PyObject* descriptor) {
    const bool done = descriptor != nullptr && PyObject_SetAttrString(reinterpret_cast<PyObject*>(type), name, descriptor) == 0;
    Py_XDECREF(descriptor);
    return done;
}

bool hold(PyTypeObject* type, PyObject* decode) {
    auto* object = reinterpret_cast<PyObject*>(type);
    Held next;
    if ((next.body = place_of(object, "_body")) < 0 || (next.looks = place_of(object, "_looks")) < 0) return false;
    if (held.type == type) return true;  // its `_attributes` is the getter already
    if ((next.attributes = place_of(object, "_attributes")) < 0) return false;
    if (!put(type, "__getitem__", PyDescr_NewMethod(type, &get_item_method))) return false;
    if (!put(type, "_attributes", PyDescr_NewGetSet(type, &attributes_getter))) return false;
    next.type = reinterpret_cast<PyTypeObject*>(Py_NewRef(object));
    next.decode = Py_NewRef(decode);
    held = next;  // one of before is never forgotten: there may be notifications of it
    return true;
}

PyObject* receiver_new(PyTypeObject* type, PyObject* arguments, PyObject*) {
    PyObject *notifications, *decode;
    if (!PyArg_ParseTuple(arguments, "O!O", &PyType_Type, &notifications, &decode)) return nullptr;
    if (!PyCallable_Check(decode)) {
        PyErr_SetString(PyExc_TypeError, "the decoder is called");
        return nullptr;
    }
    if (held.type != nullptr && reinterpret_cast<PyObject*>(held.type) != notifications) {
        PyErr_SetString(PyExc_RuntimeError, "there is another class of notifications already");
        return nullptr;
    }
    if (!hold(reinterpret_cast<PyTypeObject*>(notifications), decode)) return nullptr;
    auto* self = reinterpret_cast<Receiver*>(type->tp_alloc(type, 0));
    if (self == nullptr) return nullptr;
    try {
        self->reader = new BodyReader();
        self->names = new Names();
        self->reading = new Reading();
    } catch (const std::bad_alloc&) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    return reinterpret_cast<PyObject*>(self);
}

void receiver_dealloc(Receiver* self) {
    PyTypeObject* type = Py_TYPE(self);
    delete self->reader;
    delete self->names;
    delete self->reading;
    Py_CLEAR(self->routes);
    Py_CLEAR(self->closing);
    Py_CLEAR(self->origin);
    Py_CLEAR(self->publisher);
    type->tp_free(self);
    Py_DECREF(type);
}

PyMethodDef methods[] = {
    {"take", reinterpret_cast<PyCFunction>(reinterpret_cast<void (*)()>(receiver_take)), METH_FASTCALL,
     "take(data, at, most) -> a run of deliveries, or None"},
    {"is_sound", receiver_sound, METH_VARARGS, "is_sound(data, limit) -> bool"},
    {nullptr, nullptr, 0, nullptr},
};

PyType_Slot slots[] = {
    {Py_tp_new, reinterpret_cast<void*>(receiver_new)},
    {Py_tp_dealloc, reinterpret_cast<void*>(receiver_dealloc)},
    {Py_tp_methods, methods},
    {0, nullptr},
};

}  // namespace

PyType_Spec receiver_spec = {"tidings._native._engine.Receiver", sizeof(Receiver), 0, Py_TPFLAGS_DEFAULT, slots};

}  // namespace tidings

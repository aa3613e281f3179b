/* RecordUpdater: what `headwater.state.layers.updaters` does to a key that was updated lately.
 *
 * Entries are Python's, with `__slots__`. Where each slot lies is found by looking for a value that
 * was just put there, once, so no layout is taken for granted.
 */
#include "python.h"

#include "client.h"

typedef struct {
    PyObject_HEAD
    PyObject *entries;    /* The dict of a record cache, or of a write-back layer. */
    PyObject *under_way;  /* Has the record under way and its source. Null without a cache. */
    PyObject *step;       /* step(key, value, old); null: one is added. */
    PyObject *identify;   /* identify(key), or null if a key is its own identity. */
    PyObject *change;     /* Does the rest, for whatever is not the most frequent case. */
    PyObject *dirtied;    /* With a cache dirtied(entry, old), else mark(entry). */
    PyObject *moved;      /* With a cache moved(entry, headers). */
    PyObject *forward;    /* Without one forward(key, (new, old), timestamp, headers). */
    PyObject *refuse_key; /* refuse_key(key, error) raises. */
    PyObject *entry_type, *fixed, *one;
    Py_ssize_t identity, stored, timestamp, offset, flags, headers, source; /* Of an entry. */
    Py_ssize_t record, read_from;                                           /* Of under_way. */
    long dirty;
    int take_max, send_old, is_whole;
} Updater;

static PyObject **slot(PyObject *object, Py_ssize_t at) {
    return (PyObject **)((char *)object + at);
}

static void put(PyObject *object, Py_ssize_t at, PyObject *value) {
    PyObject *before = *slot(object, at);

    *slot(object, at) = Py_NewRef(value);
    Py_XDECREF(before);
}

/* Where an object keeps an attribute, in bytes; 0 with an error if that cannot be found. */
static Py_ssize_t offset_of(PyObject *object, const char *name) {
    PyObject *marker = PyList_New(0), *before = PyObject_GetAttrString(object, name), *size;
    Py_ssize_t at, end = 0, found = 0;

    if (!before)
        PyErr_Clear(); /* Unset. */
    size = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__basicsize__");
    if (size)
        end = PyLong_AsSsize_t(size);
    Py_XDECREF(size);
    if (!marker || !size || PyObject_SetAttrString(object, name, marker)) {
        Py_XDECREF(marker);
        Py_XDECREF(before);
        return 0;
    }
    for (at = sizeof(PyObject); at + (Py_ssize_t)sizeof(PyObject *) <= end; at += sizeof(PyObject *))
        if (*slot(object, at) == marker)
            found = found ? -1 : at;
    if (PyObject_SetAttrString(object, name, before ? before : Py_None))
        found = 0;
    Py_DECREF(marker);
    Py_XDECREF(before);
    if (found > 0)
        return found;
    if (!PyErr_Occurred())
        PyErr_Format(PyExc_TypeError, "%R does not keep %s in a slot", object, name);
    return 0;
}

static PyObject *given(PyObject *object) {
    return object == Py_None ? NULL : Py_NewRef(object);
}

static PyObject *updater_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *entries, *entry, *under_way, *step, *identify, *change, *dirtied, *moved, *forward;
    PyObject *refuse_key, *fixed;
    long dirty;
    int take_max, send_old;
    Updater *self;
    static char *names[] = {"entries", "entry",    "under_way",  "step",  "identify",
                            "change",  "dirtied",  "moved",      "forward", "refuse_key",
                            "fixed",   "dirty",    "take_max",   "send_old", NULL};

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OOOOOOOOOOOlpp", names, &entries, &entry,
                                     &under_way, &step, &identify, &change, &dirtied, &moved,
                                     &forward, &refuse_key, &fixed, &dirty, &take_max, &send_old))
        return NULL;
    if (!PyDict_CheckExact(entries) || (under_way == Py_None) != (moved == Py_None) ||
        (under_way == Py_None) == (forward == Py_None)) {
        PyErr_SetString(PyExc_TypeError, "these do not belong together");
        return NULL;
    }
    self = (Updater *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self)
        return NULL;
    self->entries = Py_NewRef(entries);
    self->under_way = given(under_way);
    self->step = given(step);
    self->identify = given(identify);
    self->change = Py_NewRef(change);
    self->dirtied = Py_NewRef(dirtied);
    self->moved = given(moved);
    self->forward = given(forward);
    self->refuse_key = Py_NewRef(refuse_key);
    self->entry_type = Py_NewRef((PyObject *)Py_TYPE(entry));
    self->fixed = Py_NewRef(fixed);
    self->one = PyLong_FromLong(1);
    self->is_whole = fixed == (PyObject *)&PyLong_Type;
    self->dirty = dirty;
    self->take_max = take_max;
    self->send_old = send_old;
    if (!(self->identity = offset_of(entry, "identity")) ||
        !(self->stored = offset_of(entry, "stored")) ||
        !(self->timestamp = offset_of(entry, "timestamp")) ||
        !(self->offset = offset_of(entry, "offset")) ||
        !(self->flags = offset_of(entry, "flags")) ||
        !(self->headers = offset_of(entry, "headers")) ||
        !(self->source = offset_of(entry, "source")) || !self->one ||
        (self->under_way && (!(self->record = offset_of(under_way, "record")) ||
                             !(self->read_from = offset_of(under_way, "source"))))) {
        Py_DECREF(self);
        return NULL;
    }
    return (PyObject *)self;
}

static int updater_traverse(Updater *self, visitproc visit, void *arg) {
    Py_VISIT(TYPE_OF(self));
    Py_VISIT(self->entries);
    Py_VISIT(self->under_way);
    Py_VISIT(self->step);
    Py_VISIT(self->identify);
    Py_VISIT(self->change);
    Py_VISIT(self->dirtied);
    Py_VISIT(self->moved);
    Py_VISIT(self->forward);
    Py_VISIT(self->refuse_key);
    Py_VISIT(self->entry_type);
    Py_VISIT(self->fixed);
    return 0;
}

static int updater_clear(Updater *self) {
    Py_CLEAR(self->entries);
    Py_CLEAR(self->under_way);
    Py_CLEAR(self->step);
    Py_CLEAR(self->identify);
    Py_CLEAR(self->change);
    Py_CLEAR(self->dirtied);
    Py_CLEAR(self->moved);
    Py_CLEAR(self->forward);
    Py_CLEAR(self->refuse_key);
    Py_CLEAR(self->entry_type);
    Py_CLEAR(self->fixed);
    Py_CLEAR(self->one);
    return 0;
}

static void updater_dealloc(Updater *self) {
    PyTypeObject *type = TYPE_OF(self);

    PyObject_GC_UnTrack(self);
    updater_clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* -- one record ---------------------------------------------------------------------------- */

static PyObject *none_after(PyObject *result) {
    if (!result)
        return NULL;
    Py_DECREF(result);
    Py_RETURN_NONE;
}

/* Raise the error of a key that is none; what is no `Exception` goes on as it is. */
static PyObject *refused(Updater *self, PyObject *key) {
    PyObject *type, *error, *traceback, *result;

    if (!PyErr_ExceptionMatches(PyExc_Exception))
        return NULL;
    PyErr_Fetch(&type, &error, &traceback);
    PyErr_NormalizeException(&type, &error, &traceback);
    if (traceback)
        PyException_SetTraceback(error, traceback);
    result = PyObject_CallFunctionObjArgs(self->refuse_key, key, error, NULL);
    Py_XDECREF(type);
    Py_XDECREF(error);
    Py_XDECREF(traceback);
    return none_after(result);
}

static int fits(Updater *self, PyObject *value) {
    int overflow = 0;

    if ((PyObject *)Py_TYPE(value) != self->fixed)
        return 0;
    if (self->is_whole)
        PyLong_AsLongLongAndOverflow(value, &overflow);
    return !overflow;
}

/* Whether a timestamp that is kept is less than the record's. */
static int is_earlier(PyObject *kept, PyObject *timestamp) {
    long long before = PyLong_AsLongLong(kept), now = PyLong_AsLongLong(timestamp);

    return PyErr_Occurred() ? -1 : before < now;
}

/* Set what is new in an entry that is in the cache; -1 if Python has raised. */
static int set_value(Updater *self, PyObject *entry, PyObject *new, PyObject *old,
                     PyObject *timestamp, PyObject *headers) {
    PyObject *record, *source, *result, *offset;
    long flags;
    int earlier = 1;

    put(entry, self->stored, new);
    if (self->take_max)
        earlier = is_earlier(*slot(entry, self->timestamp), timestamp);
    if (earlier < 0)
        return -1;
    if (earlier)
        put(entry, self->timestamp, timestamp);
    record = *slot(self->under_way, self->record);
    offset = PyTuple_GetItem(record, 0);
    if (!offset)
        return -1;
    put(entry, self->offset, offset);
    flags = PyLong_AsLong(*slot(entry, self->flags));
    if (flags == -1 && PyErr_Occurred())
        return -1;
    if (!(flags & self->dirty)) {
        result = PyObject_CallFunctionObjArgs(self->dirtied, entry, old, NULL);
        if (!result)
            return -1;
        Py_DECREF(result);
    }
    source = *slot(self->under_way, self->read_from);
    if (headers == *slot(entry, self->headers) && source == *slot(entry, self->source))
        return 0;
    result = PyObject_CallFunctionObjArgs(self->moved, entry, headers, NULL);
    Py_XDECREF(result);
    return result ? 0 : -1;
}

/* Set what is new in an entry of a write-back layer, and forward it at once. */
static PyObject *set_and_forward(Updater *self, PyObject *entry, PyObject *key, PyObject *new,
                                 PyObject *old, PyObject *timestamp, PyObject *headers) {
    PyObject *change, *result;
    long flags;
    int earlier = 1;

    put(entry, self->stored, new);
    if (self->take_max) /* Equal ones may be taken from either. */
        earlier = is_earlier(*slot(entry, self->timestamp), timestamp);
    if (earlier < 0)
        return NULL;
    if (earlier)
        put(entry, self->timestamp, timestamp);
    timestamp = Py_NewRef(*slot(entry, self->timestamp));
    flags = PyLong_AsLong(*slot(entry, self->flags));
    result = flags == -1 && PyErr_Occurred() ? NULL : Py_NewRef(Py_None);
    if (result && !(flags & self->dirty)) {
        Py_DECREF(result);
        result = PyObject_CallFunctionObjArgs(self->dirtied, entry, NULL);
    }
    change = result ? PyTuple_Pack(2, new, self->send_old ? old : Py_None) : NULL;
    Py_XDECREF(result);
    result = change ? PyObject_CallFunctionObjArgs(self->forward, key, change, timestamp, headers,
                                                   NULL)
                    : NULL;
    Py_XDECREF(change);
    Py_DECREF(timestamp);
    return none_after(result);
}

/* Give a known key its next value. */
static PyObject *known(Updater *self, PyObject *entry, PyObject *identity, PyObject *const *args) {
    PyObject *key = args[0], *value = args[1], *old, *new, *result;

    /* In a cache it is taken out and put back, under the key object that it has: entries are
     * flushed in the order of their last write. */
    if (!self->forward && (PyDict_DelItem(self->entries, identity) ||
                           PyDict_SetItem(self->entries, *slot(entry, self->identity), entry)))
        return NULL;
    old = *slot(entry, self->stored);
    if (!old || old == Py_None)
        return none_after(PyObject_CallFunctionObjArgs(self->change, entry, identity, key, value,
                                                       args[2], args[3], NULL));
    Py_INCREF(old);
    new = self->step ? PyObject_CallFunctionObjArgs(self->step, key, value, old, NULL)
                     : PyNumber_Add(old, self->one);
    if (!new)
        result = NULL;
    else if (!fits(self, new))
        result = none_after(PyObject_CallFunctionObjArgs(self->change, entry, identity, key, value,
                                                         args[2], args[3], new, NULL));
    else if (self->forward)
        result = set_and_forward(self, entry, key, new, old, args[2], args[3]);
    else
        result = set_value(self, entry, new, old, args[2], args[3]) ? NULL : Py_NewRef(Py_None);
    Py_DECREF(old);
    Py_XDECREF(new);
    return result;
}

/* update(key, value, timestamp, headers) */
static PyObject *updater_update(Updater *self, PyObject *const *args, Py_ssize_t count) {
    PyObject *identity, *entry, *result;

    if (count != 4) {
        PyErr_Format(PyExc_TypeError, "update takes 4 arguments, not %zd", count);
        return NULL;
    }
    identity = self->identify ? PyObject_CallFunctionObjArgs(self->identify, args[0], NULL)
                              : Py_NewRef(args[0]);
    if (!identity)
        return refused(self, args[0]);
    entry = PyDict_GetItemWithError(self->entries, identity);
    if (!entry) {
        if (PyErr_Occurred())
            result = refused(self, args[0]);
        else
            result = none_after(PyObject_CallFunctionObjArgs(
                self->change, Py_None, identity, args[0], args[1], args[2], args[3], NULL));
        Py_DECREF(identity);
        return result;
    }
    if ((PyObject *)Py_TYPE(entry) != self->entry_type) {
        PyErr_Format(PyExc_TypeError, "%R is no entry", entry);
        Py_DECREF(identity);
        return NULL;
    }
    Py_INCREF(entry);
    result = known(self, entry, identity, args);
    Py_DECREF(entry);
    Py_DECREF(identity);
    return result;
}

static PyMethodDef methods[] = {
    {"update", METHOD(updater_update), METH_FASTCALL, "Give a key its next value."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Read, step and write of a key that was updated lately."},
    {Py_tp_new, updater_new},
    {Py_tp_dealloc, updater_dealloc},
    {Py_tp_traverse, updater_traverse},
    {Py_tp_clear, updater_clear},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec updater_spec = {
    .name = "headwater_native.RecordUpdater",
    .basicsize = sizeof(Updater),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = slots,
};

/* RecordRun: records of one partition in offset order, for a store that is being restored. */
#include "changes.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    PyObject_HEAD
    struct changes changes;
    PyObject *whole; /* The run that this is the beginning of, which owns the memory; or null. */
} Run;

/* -- a run that grows ---------------------------------------------------------------------- */

struct builder {
    struct changes changes;
    size_t used, room; /* Of the bytes. */
};

static int builder_begin(struct builder *self, size_t count, size_t room) {
    memset(self, 0, sizeof(*self));
    self->changes.each = malloc((count ? count : 1) * sizeof(struct change));
    self->changes.bytes = malloc(room ? room : 1);
    self->room = room;
    if (self->changes.each && self->changes.bytes)
        return 0;
    PyErr_NoMemory();
    return -1;
}

static void builder_drop(struct builder *self) {
    free(self->changes.each);
    free(self->changes.bytes);
}

static int make_room(struct builder *self, size_t size) {
    size_t room = self->room;
    char *bytes;

    if (room - self->used >= size)
        return 0;
    while (room - self->used < size)
        room = room * 2 + 64;
    bytes = realloc(self->changes.bytes, room);
    if (!bytes) {
        PyErr_NoMemory();
        return -1;
    }
    self->changes.bytes = bytes;
    self->room = room;
    return 0;
}

static int put(struct builder *self, const void *bytes, size_t size) {
    if (make_room(self, size))
        return -1;
    if (size)
        memcpy(self->changes.bytes + self->used, bytes, size);
    self->used += size;
    return 0;
}

/* Kafka's signed number of varying length. */
static size_t varint(char *to, int32_t number) {
    uint32_t left = ((uint32_t)number << 1) ^ (uint32_t)(number >> 31);
    size_t size = 0;

    for (; left >= 0x80; left >>= 7)
        to[size++] = (char)(left | 0x80);
    to[size++] = (char)left;
    return size;
}

static int put_sized(struct builder *self, const void *bytes, Py_ssize_t size) {
    char prefix[5];

    if (put(self, prefix, varint(prefix, (int32_t)size)))
        return -1;
    return size > 0 ? put(self, bytes, (size_t)size) : 0;
}

/* Put the size of what was put since `start` in front of it. */
static int put_size_before(struct builder *self, size_t start) {
    char prefix[5];
    size_t length = self->used - start, size = varint(prefix, (int32_t)length);

    if (make_room(self, size))
        return -1;
    memmove(self->changes.bytes + start + size, self->changes.bytes + start, length);
    memcpy(self->changes.bytes + start, prefix, size);
    self->used += size;
    return 0;
}

/* -- of messages --------------------------------------------------------------------------- */

/* A name that is not UTF-8 gets U+FFFD, as where headers become Python's. */
static int put_name(struct builder *self, const char *name) {
    Py_ssize_t length = (Py_ssize_t)strlen(name);
    PyObject *text = PyUnicode_DecodeUTF8(name, length, NULL);
    int failed;

    if (!text && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
        PyErr_Clear();
        text = PyUnicode_DecodeUTF8(name, length, "replace");
        name = text ? PyUnicode_AsUTF8AndSize(text, &length) : NULL;
    }
    failed = !text || !name || put_sized(self, name, length);
    Py_XDECREF(text);
    return failed ? -1 : 0;
}

static int put_message_headers(struct builder *self, const rd_kafka_message_t *message) {
    rd_kafka_headers_t *headers;
    const char *name;
    const void *value;
    char prefix[5];
    size_t size, start = self->used;
    int32_t count = 0, index;

    if (rdkafka.message_headers(message, &headers))
        return put(self, "", 1); /* None: the size 0 alone. */
    while (!rdkafka.header_get_all(headers, (size_t)count, &name, &value, &size))
        count++;
    if (!count)
        return put(self, "", 1);
    if (put(self, prefix, varint(prefix, count)))
        return -1;
    for (index = 0; index < count; index++) {
        rdkafka.header_get_all(headers, (size_t)index, &name, &value, &size);
        if (put_name(self, name) || put_sized(self, value, value ? (Py_ssize_t)size : -1))
            return -1;
    }
    return put_size_before(self, start);
}

static int add_message(struct builder *self, const rd_kafka_message_t *message) {
    struct change *change = &self->changes.each[self->changes.count];
    rd_kafka_timestamp_type_t kind;

    change->offset = message->offset;
    change->timestamp = rdkafka.message_timestamp(message, &kind);
    change->at = self->used;
    change->key = message->key ? (Py_ssize_t)message->key_len : -1;
    change->value = message->payload ? (Py_ssize_t)message->len : -1;
    if (message->key && put(self, message->key, message->key_len))
        return -1;
    change->headers = (Py_ssize_t)self->used;
    if (put_message_headers(self, message))
        return -1;
    change->headers = (Py_ssize_t)self->used - change->headers;
    if (message->payload && put(self, message->payload, message->len))
        return -1;
    self->changes.count++;
    return 0;
}

/* A run that takes over what was built, or null. */
static PyObject *run_of(struct builder *built) {
    Run *self = (Run *)((allocfunc)PyType_GetSlot(run_type, Py_tp_alloc))(run_type, 0);

    if (!self) {
        builder_drop(built);
        return NULL;
    }
    self->changes = built->changes;
    return (PyObject *)self;
}

PyObject *run_of_messages(rd_kafka_message_t **messages, size_t count) {
    struct builder built;
    size_t index, room = 0;
    int failed;

    for (index = 0; index < count; index++)
        room += messages[index]->key_len + messages[index]->len + 1;
    failed = builder_begin(&built, count, room);
    for (index = 0; !failed && index < count; index++)
        failed = add_message(&built, messages[index]);
    if (failed) {
        builder_drop(&built);
        return NULL;
    }
    return run_of(&built);
}

/* -- of tuples ----------------------------------------------------------------------------- */

/* Bytes or None; their size is -1 for None and -2 with an error. */
static Py_ssize_t put_bytes(struct builder *self, PyObject *given) {
    char *bytes;
    Py_ssize_t size;

    if (given == Py_None)
        return -1;
    if (PyBytes_AsStringAndSize(given, &bytes, &size) || put(self, bytes, (size_t)size))
        return -2;
    return size;
}

static int put_pair(struct builder *self, PyObject *pair) {
    const char *name;
    char *value = NULL;
    Py_ssize_t length, size = -1;
    PyObject *text, *data;

    if (!PyArg_ParseTuple(pair, "UO", &text, &data))
        return -1;
    name = PyUnicode_AsUTF8AndSize(text, &length);
    if (!name || (data != Py_None && PyBytes_AsStringAndSize(data, &value, &size)))
        return -1;
    return put_sized(self, name, length) || put_sized(self, value, size) ? -1 : 0;
}

static int put_headers(struct builder *self, PyObject *headers) {
    char prefix[5];
    size_t start = self->used;
    Py_ssize_t index, count = headers == Py_None ? 0 : PySequence_Size(headers);

    if (count <= 0)
        return count ? -1 : put(self, "", 1);
    if (put(self, prefix, varint(prefix, (int32_t)count)))
        return -1;
    for (index = 0; index < count; index++) {
        PyObject *pair = PySequence_GetItem(headers, index);
        int failed = !pair || put_pair(self, pair);

        Py_XDECREF(pair);
        if (failed)
            return -1;
    }
    return put_size_before(self, start);
}

static int add_record(struct builder *self, PyObject *record) {
    struct change *change = &self->changes.each[self->changes.count];
    PyObject *key, *value, *headers;
    long long offset, timestamp;

    if (!PyArg_ParseTuple(record, "LLOOO", &offset, &timestamp, &key, &value, &headers))
        return -1;
    change->offset = offset;
    change->timestamp = timestamp;
    change->at = self->used;
    if ((change->key = put_bytes(self, key)) < -1)
        return -1;
    change->headers = (Py_ssize_t)self->used;
    if (put_headers(self, headers))
        return -1;
    change->headers = (Py_ssize_t)self->used - change->headers;
    if ((change->value = put_bytes(self, value)) < -1)
        return -1;
    self->changes.count++;
    return 0;
}

static PyObject *run_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    struct builder built;
    PyObject *records;
    Py_ssize_t index, count;
    int failed;
    static char *names[] = {"records", NULL};

    (void)type;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!", names, &PyList_Type, &records))
        return NULL;
    count = PyList_Size(records);
    failed = builder_begin(&built, (size_t)count, 64);
    for (index = 0; !failed && index < count; index++)
        failed = add_record(&built, PyList_GetItem(records, index));
    if (failed) {
        builder_drop(&built);
        return NULL;
    }
    return run_of(&built);
}

/* -- what is asked of it ------------------------------------------------------------------- */

static void run_dealloc(Run *self) {
    PyTypeObject *type = TYPE_OF(self);

    if (!self->whole) {
        free(self->changes.each);
        free(self->changes.bytes);
    }
    Py_XDECREF(self->whole);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

const struct changes *run_changes(PyObject *run) {
    if (Py_TYPE(run) != run_type) {
        PyErr_Format(PyExc_TypeError, "%R is no RecordRun", run);
        return NULL;
    }
    return &((Run *)run)->changes;
}

static Py_ssize_t run_length(Run *self) {
    return (Py_ssize_t)self->changes.count;
}

static PyObject *run_next_offset(Run *self, void *unused) {
    (void)unused;
    if (!self->changes.count) {
        PyErr_SetString(PyExc_ValueError, "an empty run ends nowhere");
        return NULL;
    }
    return PyLong_FromLongLong(self->changes.each[self->changes.count - 1].offset + 1);
}

static PyObject *run_before(Run *self, PyObject *offset) {
    long long end = PyLong_AsLongLong(offset);
    size_t count = self->changes.count;
    Run *found;

    if (end == -1 && PyErr_Occurred())
        return NULL;
    while (count && self->changes.each[count - 1].offset >= end)
        count--;
    found = (Run *)((allocfunc)PyType_GetSlot(run_type, Py_tp_alloc))(run_type, 0);
    if (found) {
        found->changes = self->changes;
        found->changes.count = count;
        found->whole = Py_NewRef((PyObject *)(self->whole ? self->whole : (PyObject *)self));
    }
    return (PyObject *)found;
}

static PyObject *run_newest(Run *self, PyObject *args, PyObject *kwargs) {
    int headers = 0, versions = 0;
    static char *names[] = {"headers", "versions", NULL};

    (void)self;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$pp", names, &headers, &versions))
        return NULL;
    return newest_new(headers, versions);
}

static PyMethodDef methods[] = {
    {"before", METHOD(run_before), METH_O, "Return the records below an offset."},
    {"newest", METHOD(run_newest), METH_VARARGS | METH_KEYWORDS, "Return what takes in such runs."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"next_offset", (getter)(void (*)(void))run_next_offset, NULL,
     "The offset behind the last record.", NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Records of one partition in offset order: RecordRun([(offset, timestamp, key, "
                "value, headers), ...])."},
    {Py_tp_new, run_new},
    {Py_tp_dealloc, run_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_sq_length, run_length},
    {0, NULL},
};

PyTypeObject *run_type;

PyType_Spec run_spec = {
    .name = "headwater_native.RecordRun",
    .basicsize = sizeof(Run),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

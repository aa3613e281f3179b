/* RecordWriter and its senders: what a producer sends, without an object for each message.
 *
 * producev neither blocks nor calls back into Python, so the global lock is kept.
 */
#include "python.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "client.h"

PyTypeObject *sender_type;

#define RAISED INT_MIN

enum mode { DIRECT, HOLDING, REDIRECTED, CLOSED };

struct topic {
    PyObject *name;
    rd_kafka_topic_t *handle;
};

typedef struct {
    PyObject_HEAD
    PyObject *producer; /* Whose client this is; kept for as long as it is used. */
    PyObject *refuse;   /* refuse(code) raises the error of a record that is not taken. */
    PyObject *held;     /* Where records go while HOLDING. */
    struct client *client;
    struct topic *topics;
    Py_ssize_t topic_count;
    enum mode mode;
} Writer;

typedef struct {
    PyObject_HEAD
    Writer *writer;
    PyObject *topic;
    PyObject *failed;    /* failed(code, key, value, timestamp, headers, partition) */
    PyObject *otherwise; /* Sends while the writer is REDIRECTED. */
    rd_kafka_topic_t *handle;
    long long count;
} Sender;

/* -- a record ------------------------------------------------------------------------------ */

struct span {
    const char *bytes;
    Py_ssize_t length;
};

/* What confluent_kafka takes for a key or a value, by its own rules. */
static int span_of(PyObject *object, struct span *span) {
    if (object == Py_None) {
        span->bytes = NULL;
        span->length = 0;
        return 0;
    }
    if (PyBytes_CheckExact(object))
        return PyBytes_AsStringAndSize(object, (char **)&span->bytes, &span->length);
    return PyArg_Parse(object, "z#", &span->bytes, &span->length) ? 0 : -1;
}

static int add_header(rd_kafka_headers_t *headers, PyObject *name, PyObject *value) {
    struct span data = {NULL, 0};
    const char *text;
    PyObject *named = PyObject_Str(name);
    rd_kafka_resp_err_t error;

    if (!named)
        return -1;
    text = PyUnicode_AsUTF8AndSize(named, NULL);
    if (!text)
        goto failed;
    if (PyBytes_Check(value)) {
        if (PyBytes_AsStringAndSize(value, (char **)&data.bytes, &data.length))
            goto failed;
    } else if (PyUnicode_Check(value)) {
        data.bytes = PyUnicode_AsUTF8AndSize(value, NULL);
        if (!data.bytes)
            goto failed;
        data.length = (Py_ssize_t)strlen(data.bytes);
    } else if (value != Py_None) {
        PyErr_Format(PyExc_TypeError, "the value of header %s is no bytes, but %R", text, value);
        goto failed;
    }
    error = rdkafka.header_add(headers, text, -1, data.bytes, data.length);
    if (error)
        PyErr_Format(PyExc_RuntimeError, "header %s: %s", text, rdkafka.err2str(error));
    Py_DECREF(named);
    return error ? -1 : 0;
failed:
    Py_DECREF(named);
    return -1;
}

static rd_kafka_headers_t *headers_of(PyObject *pairs) {
    rd_kafka_headers_t *headers;
    Py_ssize_t index, count;

    if (!PyList_Check(pairs)) {
        PyErr_Format(PyExc_TypeError, "headers are a list of (name, value), not %R", pairs);
        return NULL;
    }
    count = PyList_Size(pairs);
    headers = rdkafka.headers_new((size_t)count);
    for (index = 0; index < count; index++) {
        PyObject *pair = PyList_GetItem(pairs, index);

        if (!PyTuple_Check(pair) || PyTuple_Size(pair) != 2) {
            PyErr_Format(PyExc_TypeError, "a header is a tuple (name, value), not %R", pair);
        } else if (!add_header(headers, PyTuple_GetItem(pair, 0), PyTuple_GetItem(pair, 1))) {
            continue;
        }
        rdkafka.headers_destroy(headers);
        return NULL;
    }
    return headers;
}

/* Queue a record; return librdkafka's error, 0 if it is taken, or RAISED if Python has raised. */
static int produce(Writer *writer, rd_kafka_topic_t *topic, PyObject *key, PyObject *value,
                   long long timestamp, PyObject *pairs, long partition) {
    rd_kafka_headers_t *headers = NULL;
    rd_kafka_resp_err_t refused;
    struct span key_bytes, value_bytes;

    if (span_of(key, &key_bytes) || span_of(value, &value_bytes))
        return RAISED;
    if (partition != (int32_t)partition) {
        PyErr_Format(PyExc_OverflowError, "there is no partition %ld", partition);
        return RAISED;
    }
    if (pairs != Py_None && !(headers = headers_of(pairs)))
        return RAISED;
    client_is_producing = 1;
    refused = rdkafka.producev(client_handle(writer->client),
                               RD_KAFKA_VTYPE_RKT, topic,
                               RD_KAFKA_VTYPE_PARTITION, (int32_t)partition,
                               RD_KAFKA_VTYPE_MSGFLAGS, (int)RD_KAFKA_MSG_F_COPY,
                               RD_KAFKA_VTYPE_KEY, key_bytes.bytes, (size_t)key_bytes.length,
                               RD_KAFKA_VTYPE_VALUE, value_bytes.bytes,
                               (size_t)value_bytes.length,
                               RD_KAFKA_VTYPE_TIMESTAMP, (int64_t)timestamp,
                               RD_KAFKA_VTYPE_HEADERS, headers,
                               RD_KAFKA_VTYPE_END);
    client_is_producing = 0;
    if (refused && headers)
        rdkafka.headers_destroy(headers); /* Else they are the record's now. */
    return refused;
}

/* -- the writer ---------------------------------------------------------------------------- */

static int is_open(const Writer *self) {
    if (self->mode == CLOSED)
        PyErr_SetString(PyExc_RuntimeError, "the writer is closed");
    return self->mode != CLOSED;
}

static rd_kafka_topic_t *handle_of(Writer *self, PyObject *name) {
    const char *text;
    struct topic *topics;
    Py_ssize_t index;

    for (index = 0; index < self->topic_count; index++)
        if (self->topics[index].name == name)
            return self->topics[index].handle;
    for (index = 0; index < self->topic_count; index++)
        if (PyUnicode_Compare(self->topics[index].name, name) == 0)
            return self->topics[index].handle;
    text = PyErr_Occurred() ? NULL : PyUnicode_AsUTF8AndSize(name, NULL);
    if (!text)
        return NULL;
    topics = realloc(self->topics, (size_t)(self->topic_count + 1) * sizeof(*topics));
    if (!topics) {
        PyErr_NoMemory();
        return NULL;
    }
    self->topics = topics;
    topics += self->topic_count;
    topics->handle = rdkafka.topic_new(client_handle(self->client), text, NULL);
    if (!topics->handle) {
        PyErr_Format(PyExc_RuntimeError, "topic %s: %s", text,
                     rdkafka.err2str(rdkafka.last_error()));
        return NULL;
    }
    topics->name = Py_NewRef(name);
    self->topic_count++;
    return topics->handle;
}

static void close_writer(Writer *self) {
    self->mode = CLOSED;
    while (self->topic_count) {
        struct topic *topic = &self->topics[--self->topic_count];

        rdkafka.topic_destroy(topic->handle);
        Py_DECREF(topic->name);
    }
    free(self->topics);
    self->topics = NULL;
    if (self->client) {
        client_release(self->client);
        self->client = NULL;
    }
}

static PyObject *writer_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *producer, *refuse;
    Writer *self;
    static char *names[] = {"producer", "refuse", NULL};

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "OO", names, &producer, &refuse))
        return NULL;
    self = (Writer *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self)
        return NULL;
    self->mode = CLOSED;
    self->client = client_claim();
    if (!self->client) {
        PyErr_SetString(PyExc_RuntimeError, "librdkafka did not hand its producer over");
        Py_DECREF(self);
        return NULL;
    }
    self->producer = Py_NewRef(producer);
    self->refuse = Py_NewRef(refuse);
    self->mode = DIRECT;
    return (PyObject *)self;
}

static int writer_traverse(Writer *self, visitproc visit, void *arg) {
    Py_VISIT(TYPE_OF(self));
    Py_VISIT(self->producer);
    Py_VISIT(self->refuse);
    Py_VISIT(self->held);
    return 0;
}

static int writer_clear(Writer *self) {
    close_writer(self); /* Before the producer goes: it waits until its topics are given back. */
    Py_CLEAR(self->producer);
    Py_CLEAR(self->refuse);
    Py_CLEAR(self->held);
    return 0;
}

static void writer_dealloc(Writer *self) {
    PyTypeObject *type = TYPE_OF(self);

    PyObject_GC_UnTrack(self);
    writer_clear(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *writer_close(Writer *self, PyObject *unused) {
    (void)unused;
    close_writer(self);
    Py_RETURN_NONE;
}

/* Raise what confluent_kafka would. */
static PyObject *refused(Writer *self, int code) {
    PyObject *result;

    if (code == RD_KAFKA_RESP_ERR__QUEUE_FULL) {
        PyErr_SetString(PyExc_BufferError, rdkafka.err2str(code));
        return NULL;
    }
    result = PyObject_CallFunction(self->refuse, "i", code);
    if (result)
        PyErr_SetString(PyExc_SystemError, "refuse has not raised");
    Py_XDECREF(result);
    return NULL;
}

/* produce(topic, value, key, partition, None, None, timestamp, headers), as confluent_kafka's. */
static PyObject *writer_produce(Writer *self, PyObject *const *args, Py_ssize_t count) {
    rd_kafka_topic_t *topic;
    long long timestamp;
    long partition;
    int code;

    if (count != 8) {
        PyErr_Format(PyExc_TypeError, "produce takes 8 arguments, not %zd", count);
        return NULL;
    }
    if (!is_open(self) || !(topic = handle_of(self, args[0])))
        return NULL;
    partition = PyLong_AsLong(args[3]);
    timestamp = PyLong_AsLongLong(args[6]);
    if (PyErr_Occurred())
        return NULL;
    code = produce(self, topic, args[2], args[1], timestamp, args[7], partition);
    if (code == 0)
        Py_RETURN_NONE;
    return code == RAISED ? NULL : refused(self, code);
}

static PyObject *writer_sender(Writer *self, PyObject *args) {
    PyObject *topic, *failed, *otherwise;
    rd_kafka_topic_t *handle;
    Sender *sender;

    if (!PyArg_ParseTuple(args, "UOO", &topic, &failed, &otherwise))
        return NULL;
    if (!is_open(self) || !(handle = handle_of(self, topic)))
        return NULL;
    sender = PyObject_GC_New(Sender, sender_type);
    if (!sender)
        return NULL;
    sender->writer = (Writer *)Py_NewRef((PyObject *)self);
    sender->topic = Py_NewRef(topic);
    sender->failed = Py_NewRef(failed);
    sender->otherwise = Py_NewRef(otherwise);
    sender->handle = handle;
    sender->count = 0;
    PyObject_GC_Track(sender);
    return (PyObject *)sender;
}

static PyObject *set_mode(Writer *self, enum mode mode, PyObject *held) {
    PyObject *before = self->held;

    if (!is_open(self))
        return NULL;
    self->mode = mode;
    self->held = Py_XNewRef(held);
    Py_XDECREF(before);
    Py_RETURN_NONE;
}

static PyObject *writer_direct(Writer *self, PyObject *unused) {
    (void)unused;
    return set_mode(self, DIRECT, NULL);
}

static PyObject *writer_redirect(Writer *self, PyObject *unused) {
    (void)unused;
    return set_mode(self, REDIRECTED, NULL);
}

static PyObject *writer_hold(Writer *self, PyObject *held) {
    if (!PyList_CheckExact(held)) {
        PyErr_SetString(PyExc_TypeError, "records are held in a list");
        return NULL;
    }
    return set_mode(self, HOLDING, held);
}

static PyObject *writer_has_failures(Writer *self, PyObject *unused) {
    (void)unused;
    return PyBool_FromLong(self->client && client_has_failures(self->client));
}

/* [(code, topic, value, key, partition), ...] of what was queued and not delivered. */
static PyObject *writer_take_failures(Writer *self, PyObject *unused) {
    PyObject *list = PyList_New(0), *row;
    struct failure *failure, *next;
    const char *key, *value;

    (void)unused;
    if (!list || !self->client)
        return list;
    for (failure = client_take_failures(self->client); failure; failure = next) {
        next = failure->next;
        key = failure->bytes + failure->topic_length;
        value = key + failure->key_length;
        row = !list ? NULL
                    : Py_BuildValue("(is#y#y#i)", failure->error, failure->bytes,
                                    (Py_ssize_t)failure->topic_length,
                                    failure->has_value ? value : NULL,
                                    (Py_ssize_t)failure->value_length,
                                    failure->has_key ? key : NULL,
                                    (Py_ssize_t)failure->key_length, failure->partition);
        if (list && (!row || PyList_Append(list, row)))
            Py_CLEAR(list);
        Py_XDECREF(row);
        free(failure);
    }
    return list;
}

static PyMethodDef writer_methods[] = {
    {"produce", METHOD(writer_produce), METH_FASTCALL, "Queue a record, as Producer.produce."},
    {"sender", METHOD(writer_sender), METH_VARARGS, "Return what sends to one topic."},
    {"direct", METHOD(writer_direct), METH_NOARGS, "Have senders queue what they are given."},
    {"hold", METHOD(writer_hold), METH_O, "Have senders append it to a list."},
    {"redirect", METHOD(writer_redirect), METH_NOARGS, "Have senders call what they were given."},
    {"has_failures", METHOD(writer_has_failures), METH_NOARGS, "Whether a delivery has failed."},
    {"take_failures", METHOD(writer_take_failures), METH_NOARGS, "Return which have, once."},
    {"close", METHOD(writer_close), METH_NOARGS, "Let go of the producer's topics."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot writer_slots[] = {
    {Py_tp_doc, "Sends by the producer that this thread has just made."},
    {Py_tp_new, writer_new},
    {Py_tp_dealloc, writer_dealloc},
    {Py_tp_traverse, writer_traverse},
    {Py_tp_clear, writer_clear},
    {Py_tp_methods, writer_methods},
    {0, NULL},
};

PyType_Spec writer_spec = {
    .name = "headwater_native.RecordWriter",
    .basicsize = sizeof(Writer),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC,
    .slots = writer_slots,
};

/* -- a sender ------------------------------------------------------------------------------ */

static int sender_traverse(Sender *self, visitproc visit, void *arg) {
    Py_VISIT(TYPE_OF(self));
    Py_VISIT((PyObject *)self->writer);
    Py_VISIT(self->failed);
    Py_VISIT(self->otherwise);
    return 0;
}

static int sender_clear(Sender *self) {
    Py_CLEAR(self->writer);
    Py_CLEAR(self->failed);
    Py_CLEAR(self->otherwise);
    return 0;
}

static void sender_dealloc(Sender *self) {
    PyTypeObject *type = TYPE_OF(self);

    PyObject_GC_UnTrack(self);
    sender_clear(self);
    Py_CLEAR(self->topic);
    PyObject_GC_Del(self);
    Py_DECREF(type);
}

static PyObject *hold(Sender *self, PyObject *const *args, PyObject *number) {
    PyObject *record = PyTuple_Pack(8, self->topic, args[1], args[0], number, Py_None, Py_None,
                                    args[2], args[3]);
    int failed = !record || PyList_Append(self->writer->held, record);

    Py_XDECREF(record);
    if (failed)
        return NULL;
    Py_RETURN_NONE;
}

static PyObject *hold_it(Sender *self, PyObject *const *args) {
    PyObject *number, *result;

    if (args[4] != Py_None)
        return hold(self, args, args[4]);
    number = PyLong_FromLong(RD_KAFKA_PARTITION_UA);
    result = number ? hold(self, args, number) : NULL;
    Py_XDECREF(number);
    return result;
}

/* send(key, value, timestamp, headers, partition), as `ports.Send`. */
static PyObject *sender_send(Sender *self, PyObject *const *args, Py_ssize_t count) {
    long long timestamp;
    long partition = RD_KAFKA_PARTITION_UA;
    PyObject *number, *result;
    int code;

    if (count != 5) {
        PyErr_Format(PyExc_TypeError, "send takes 5 arguments, not %zd", count);
        return NULL;
    }
    switch (self->writer->mode) {
    case DIRECT:
        break;
    case HOLDING:
        self->count++;
        return hold_it(self, args);
    case REDIRECTED:
        self->count++;
        return PyObject_CallFunctionObjArgs(self->otherwise, args[0], args[1], args[2], args[3],
                                            args[4], NULL);
    default:
        is_open(self->writer);
        return NULL;
    }
    self->count++;
    if (args[4] != Py_None) {
        partition = PyLong_AsLong(args[4]);
        if (partition == -1 && PyErr_Occurred())
            return NULL;
    }
    timestamp = PyLong_AsLongLong(args[2]);
    if (timestamp == -1 && PyErr_Occurred())
        return NULL;
    code = produce(self->writer, self->handle, args[0], args[1], timestamp, args[3], partition);
    if (code == 0)
        Py_RETURN_NONE;
    if (code == RAISED)
        return NULL;
    number = PyLong_FromLong(code);
    if (!number)
        return NULL;
    result = PyObject_CallFunctionObjArgs(self->failed, number, args[0], args[1], args[2], args[3],
                                          args[4], NULL);
    Py_DECREF(number);
    return result;
}

static PyObject *sender_times_sent(Sender *self, PyObject *unused) {
    (void)unused;
    return PyLong_FromLongLong(self->count);
}

static PyMethodDef sender_methods[] = {
    {"send", METHOD(sender_send), METH_FASTCALL, "Send a record to the sender's topic."},
    {"times_sent", METHOD(sender_times_sent), METH_NOARGS, "Return how often send was called."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot sender_slots[] = {
    {Py_tp_doc, "Sends to one topic."},
    {Py_tp_dealloc, sender_dealloc},
    {Py_tp_traverse, sender_traverse},
    {Py_tp_clear, sender_clear},
    {Py_tp_methods, sender_methods},
    {0, NULL},
};

PyType_Spec sender_spec = {
    .name = "headwater_native.RecordSender",
    .basicsize = sizeof(Sender),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_HAVE_GC | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = sender_slots,
};

/* RecordReader: batches of a consumer, taken apart into what a task reads.
 *
 * The queues of the partitions are forwarded to one of our own, which nothing but records and
 * their errors comes through. Everything that confluent_kafka has callbacks for stays in its
 * consumer's queue: those callbacks expect to be called within its own poll.
 */
#include "python.h"

#include <stdlib.h>
#include <string.h>

#include "changes.h"
#include "client.h"

typedef struct {
    PyObject_HEAD
    PyObject *consumer; /* Whose client this is; kept for as long as it is used. */
    struct client *client;
    rd_kafka_queue_t *queue;
    rd_kafka_message_t **messages;
    size_t capacity;
} Reader;

/* The records of one partition, one after the other. */
struct run {
    size_t length;
    size_t longest; /* Bytes of the longest value. */
};

static int is_open(Reader *self) {
    if (!self->queue)
        PyErr_SetString(PyExc_RuntimeError, "the reader is closed");
    return self->queue != NULL;
}

static void close_reader(Reader *self) {
    if (self->queue) {
        Py_BEGIN_ALLOW_THREADS
        rdkafka.queue_destroy(self->queue);
        Py_END_ALLOW_THREADS
        self->queue = NULL;
    }
    if (self->client) {
        client_release(self->client);
        self->client = NULL;
    }
    free(self->messages);
    self->messages = NULL;
    Py_CLEAR(self->consumer);
}

static PyObject *reader_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    PyObject *consumer;
    Py_ssize_t capacity;
    Reader *self;
    static char *names[] = {"consumer", "batch_records", NULL};

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "On", names, &consumer, &capacity))
        return NULL;
    if (capacity < 1) {
        PyErr_SetString(PyExc_ValueError, "batch_records is at least 1");
        return NULL;
    }
    self = (Reader *)((allocfunc)PyType_GetSlot(type, Py_tp_alloc))(type, 0);
    if (!self)
        return NULL;
    self->client = client_claim();
    if (!self->client) {
        PyErr_SetString(PyExc_RuntimeError, "librdkafka did not hand its consumer over");
        Py_DECREF(self);
        return NULL;
    }
    self->capacity = (size_t)capacity;
    self->messages = malloc(self->capacity * sizeof(*self->messages));
    self->queue = rdkafka.queue_new(client_handle(self->client));
    if (!self->messages || !self->queue) {
        Py_DECREF(self);
        return PyErr_NoMemory();
    }
    self->consumer = Py_NewRef(consumer);
    return (PyObject *)self;
}

static void reader_dealloc(Reader *self) {
    PyTypeObject *type = TYPE_OF(self);

    close_reader(self);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

static PyObject *reader_close(Reader *self, PyObject *unused) {
    (void)unused;
    close_reader(self);
    Py_RETURN_NONE;
}

static PyObject *forward(Reader *self, PyObject *args, rd_kafka_queue_t *to) {
    const char *topic;
    int partition;
    rd_kafka_queue_t *queue;

    if (!PyArg_ParseTuple(args, "si", &topic, &partition))
        return NULL;
    queue = rdkafka.queue_get_partition(client_handle(self->client), topic, partition);
    if (!queue)
        return PyErr_Format(PyExc_RuntimeError, "%s-%d has no queue", topic, partition);
    rdkafka.queue_forward(queue, to);
    rdkafka.queue_destroy(queue);
    Py_RETURN_NONE;
}

static PyObject *reader_follow(Reader *self, PyObject *args) {
    return is_open(self) ? forward(self, args, self->queue) : NULL;
}

static PyObject *reader_leave(Reader *self, PyObject *args) {
    return is_open(self) ? forward(self, args, NULL) : NULL;
}

/* -- taking apart -------------------------------------------------------------------------- */

static PyObject *bytes_or_none(const void *bytes, size_t length) {
    if (!bytes)
        return Py_NewRef(Py_None);
    return PyBytes_FromStringAndSize(bytes, (Py_ssize_t)length);
}

/* Headers, or None; a name that is not UTF-8 gets U+FFFD, and `mended` is set. */
static PyObject *headers_of(const rd_kafka_message_t *message, int *mended) {
    rd_kafka_headers_t *headers;
    const char *name;
    const void *value;
    size_t size, index;
    PyObject *list;

    if (rdkafka.message_headers(message, &headers))
        return Py_NewRef(Py_None);
    list = PyList_New(0);
    for (index = 0; list && !rdkafka.header_get_all(headers, index, &name, &value, &size); index++) {
        Py_ssize_t length = (Py_ssize_t)strlen(name);
        PyObject *pair, *data, *text = PyUnicode_DecodeUTF8(name, length, NULL);

        if (!text && PyErr_ExceptionMatches(PyExc_UnicodeDecodeError)) {
            PyErr_Clear();
            *mended = 1;
            text = PyUnicode_DecodeUTF8(name, length, "replace");
        }
        data = bytes_or_none(value, size);
        pair = text && data ? PyTuple_Pack(2, text, data) : NULL;
        Py_XDECREF(text);
        Py_XDECREF(data);
        if (!pair || PyList_Append(list, pair))
            Py_CLEAR(list);
        Py_XDECREF(pair);
    }
    return list;
}

/* (offset, timestamp, key, value, headers), as `columns.records_of` makes them. */
static PyObject *record_of(const rd_kafka_message_t *message, PyObject *timestamp, int *mended) {
    PyObject *record = PyTuple_New(5);

    if (record && !fill(record, 0, PyLong_FromLongLong(message->offset)) &&
        !fill(record, 1, Py_NewRef(timestamp)) &&
        !fill(record, 2, bytes_or_none(message->key, message->key_len)) &&
        !fill(record, 3, bytes_or_none(message->payload, message->len)) &&
        !fill(record, 4, headers_of(message, mended)))
        return record;
    Py_XDECREF(record);
    return NULL;
}

/* (code, reason, topic or None, partition, offset) of what is no record. */
static PyObject *event_of(const rd_kafka_message_t *message) {
    const char *reason = rdkafka.message_errstr(message);

    return Py_BuildValue("(izziL)", message->err, reason,
                         message->rkt ? rdkafka.topic_name(message->rkt) : NULL,
                         message->partition, (long long)message->offset);
}

static struct run run_at(rd_kafka_message_t **messages, size_t count) {
    struct run run = {0, 0};
    const rd_kafka_message_t *first = messages[0];

    for (; run.length < count; run.length++) {
        const rd_kafka_message_t *message = messages[run.length];

        if (message->err || message->rkt != first->rkt || message->partition != first->partition)
            break;
        if (message->len > run.longest)
            run.longest = message->len;
    }
    return run;
}

/* Records as tuples; `mended_at` is the offset of the first with a mended header, or -1. */
static PyObject *records_of(rd_kafka_message_t **messages, size_t count, int64_t *mended_at) {
    PyObject *records = PyList_New((Py_ssize_t)count), *timestamp = NULL, *record;
    int64_t stamped = 0;
    size_t index;

    for (index = 0; records && index < count; index++) {
        const rd_kafka_message_t *message = messages[index];
        rd_kafka_timestamp_type_t kind;
        int64_t now = rdkafka.message_timestamp(message, &kind);
        int mended = 0;

        if (!timestamp || now != stamped) { /* Neighbours often have the same. */
            Py_XDECREF(timestamp);
            timestamp = PyLong_FromLongLong(stamped = now);
        }
        record = timestamp ? record_of(message, timestamp, &mended) : NULL;
        if (mended && *mended_at < 0)
            *mended_at = message->offset;
        if (record)
            PyList_SetItem(records, (Py_ssize_t)index, record);
        else
            Py_CLEAR(records);
    }
    Py_XDECREF(timestamp);
    return records;
}

/* (topic, partition, records, offset behind them, longest value, offset of a mended header). */
static PyObject *batch_of(rd_kafka_message_t **messages, struct run run, int as_run) {
    int64_t mended_at = -1;
    PyObject *records = as_run ? run_of_messages(messages, run.length)
                               : records_of(messages, run.length, &mended_at);

    if (!records)
        return NULL;
    return Py_BuildValue("(siNLnL)", rdkafka.topic_name(messages[0]->rkt), messages[0]->partition,
                         records, (long long)messages[run.length - 1]->offset + 1,
                         (Py_ssize_t)run.longest, (long long)mended_at);
}

static int append(PyObject *list, PyObject *made) {
    int failed = !made || PyList_Append(list, made);

    Py_XDECREF(made);
    return failed ? -1 : 0;
}

/* Wait for the first record only; take along what has come with it. */
static ssize_t fetch(Reader *self, int timeout_ms, size_t count) {
    ssize_t found, more;

    found = rdkafka.consume_batch_queue(self->queue, 0, self->messages, count);
    if (found || timeout_ms <= 0)
        return found;
    found = rdkafka.consume_batch_queue(self->queue, timeout_ms, self->messages, 1);
    if (found == 1 && count > 1) {
        more = rdkafka.consume_batch_queue(self->queue, 0, self->messages + 1, count - 1);
        found += more > 0 ? more : 0;
    }
    return found;
}

static PyObject *read_batches(Reader *self, PyObject *args, int as_runs) {
    int timeout_ms;
    ssize_t found;
    size_t count, index = 0, done;
    PyObject *batches = NULL, *events = NULL;

    if (!PyArg_ParseTuple(args, "i", &timeout_ms) || !is_open(self))
        return NULL;
    Py_BEGIN_ALLOW_THREADS
    found = fetch(self, timeout_ms, self->capacity);
    Py_END_ALLOW_THREADS
    if (found < 0)
        return PyErr_Format(PyExc_RuntimeError, "reading records: %s",
                            rdkafka.err2str(rdkafka.last_error()));
    count = (size_t)found;
    batches = PyList_New(0);
    events = PyList_New(0);
    while (batches && events && index < count) {
        struct run run = run_at(self->messages + index, count - index);

        if (run.length ? append(batches, batch_of(self->messages + index, run, as_runs))
                       : append(events, event_of(self->messages[index])))
            break;
        for (done = run.length ? run.length : 1; done; done--)
            rdkafka.message_destroy(self->messages[index++]);
    }
    for (done = index; done < count; done++) /* Python has raised: it is out of memory. */
        rdkafka.message_destroy(self->messages[done]);
    if (!batches || !events || index < count) {
        Py_XDECREF(batches);
        Py_XDECREF(events);
        return NULL;
    }
    return Py_BuildValue("(NNn)", batches, events, (Py_ssize_t)count);
}

static PyObject *reader_read(Reader *self, PyObject *args) {
    return read_batches(self, args, 0);
}

static PyObject *reader_read_runs(Reader *self, PyObject *args) {
    return read_batches(self, args, 1);
}

static PyMethodDef methods[] = {
    {"follow", METHOD(reader_follow), METH_VARARGS, "Have the records of a partition come here."},
    {"leave", METHOD(reader_leave), METH_VARARGS, "Have them stay with their partition."},
    {"read", METHOD(reader_read), METH_VARARGS, "Return batches, events and how many they were."},
    {"read_runs", METHOD(reader_read_runs), METH_VARARGS, "Likewise, with a RecordRun each."},
    {"close", METHOD(reader_close), METH_NOARGS, "Let go of the consumer; before it is closed."},
    {NULL, NULL, 0, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Reads the consumer that this thread has just made."},
    {Py_tp_new, reader_new},
    {Py_tp_dealloc, reader_dealloc},
    {Py_tp_methods, methods},
    {0, NULL},
};

PyType_Spec reader_spec = {
    .name = "headwater_native.RecordReader",
    .basicsize = sizeof(Reader),
    .flags = Py_TPFLAGS_DEFAULT,
    .slots = slots,
};

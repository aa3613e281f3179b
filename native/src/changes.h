/* Records of a changelog, copied out of librdkafka's: no Python object for each. */
#ifndef HEADWATER_CHANGES_H
#define HEADWATER_CHANGES_H

#include "python.h"

#include "librdkafka.h"

/* Key, headers and value lie behind each other, from `at` on. */
struct change {
    int64_t offset, timestamp;
    size_t at;
    Py_ssize_t key;     /* Bytes; -1 if it is null. */
    Py_ssize_t headers; /* Bytes, as a state store keeps them (`headwater.wire.headers`). */
    Py_ssize_t value;   /* Bytes; -1 if it is null. */
};

struct changes {
    struct change *each;
    size_t count;
    char *bytes;
};

/* A `RecordRun` of messages, all of them records of one partition; they are not freed. */
PyObject *run_of_messages(rd_kafka_message_t **messages, size_t count);

/* What a `RecordRun` holds, or null with a TypeError. */
const struct changes *run_changes(PyObject *run);

/* An empty `NewestRecords`. */
PyObject *newest_new(int with_headers, int with_versions);

/* Has hashes of keys differ from process to process; -1 with an error. */
int newest_prepare(void);

extern PyType_Spec run_spec, newest_spec;
extern PyTypeObject *run_type, *newest_type;

#endif

/* NewestRecords: of each key of a changelog, the record that came last.
 *
 * What a store is given next. Keys and values are copied, since librdkafka keeps the whole batch of
 * a broker in memory for as long as any record of it is held.
 */
#include "changes.h"

#include <stdlib.h>
#include <string.h>

/* Key and value lie behind each other; the value has its headers in front if they are wanted. */
struct entry {
    uint64_t hash;
    int64_t timestamp;
    char *bytes;
    size_t room, key;
    Py_ssize_t value; /* -1 if it is null. */
};

struct chunk {
    struct chunk *next;
    size_t used, room;
    char bytes[];
};

typedef struct {
    PyObject_HEAD
    struct entry *entries; /* In the order in which their keys came first. */
    size_t count, room;
    uint32_t *table; /* Numbers of entries plus one, by hash; 0 is free. */
    size_t slots;    /* A power of two, or 0. */
    struct chunk *chunks;
    size_t held; /* Bytes of keys and values, those of outdated ones among them. */
    int with_headers, with_versions;
} Newest;

enum {
    FIRST_CHUNK = 4 * 1024,
    LAST_CHUNK = 1024 * 1024,
    FIRST_SLOTS = 64,
    /* What Python and the table take for an entry that is written, beside its bytes. */
    OVERHEAD = 260
};

static uint64_t seed;

int newest_prepare(void) {
    PyObject *bytes = PyBytes_FromString("headwater");
    Py_hash_t hash = bytes ? PyObject_Hash(bytes) : -1;

    Py_XDECREF(bytes);
    seed = (uint64_t)hash;
    return hash == -1 ? -1 : 0;
}

static uint64_t mixed(uint64_t left, uint64_t right) {
    unsigned __int128 product = (unsigned __int128)left * right;

    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static uint64_t hash_of(const char *key, size_t size, int64_t salt) {
    uint64_t found = seed ^ (uint64_t)salt ^ (size * 0x9e3779b97f4a7c15u), part;

    for (; size >= sizeof(part); key += sizeof(part), size -= sizeof(part)) {
        memcpy(&part, key, sizeof(part));
        found = mixed(found ^ part, 0xa0761d6478bd642fu);
    }
    part = 0;
    memcpy(&part, key, size);
    return mixed(found ^ part, 0xe7037ed1a0b428dbu);
}

PyObject *newest_new(int with_headers, int with_versions) {
    Newest *self = (Newest *)((allocfunc)PyType_GetSlot(newest_type, Py_tp_alloc))(newest_type, 0);

    if (self) {
        self->with_headers = with_headers;
        self->with_versions = with_versions;
    }
    return (PyObject *)self;
}

static void newest_dealloc(Newest *self) {
    PyTypeObject *type = TYPE_OF(self);

    while (self->chunks) {
        struct chunk *next = self->chunks->next;

        free(self->chunks);
        self->chunks = next;
    }
    free(self->entries);
    free(self->table);
    ((freefunc)PyType_GetSlot(type, Py_tp_free))(self);
    Py_DECREF(type);
}

/* -- taking in ----------------------------------------------------------------------------- */

static char *allocate(Newest *self, size_t size) {
    struct chunk *chunk = self->chunks;
    char *found;

    if (!chunk || chunk->room - chunk->used < size) {
        size_t room = chunk ? chunk->room * 2 : FIRST_CHUNK;

        if (room > LAST_CHUNK)
            room = LAST_CHUNK;
        if (room < size)
            room = size;
        chunk = malloc(sizeof(*chunk) + room);
        if (!chunk)
            return NULL;
        chunk->next = self->chunks;
        chunk->used = 0;
        chunk->room = room;
        self->chunks = chunk;
    }
    found = chunk->bytes + chunk->used;
    chunk->used += size;
    self->held += size;
    return found;
}

static int grow_table(Newest *self) {
    size_t slots = self->slots ? self->slots * 2 : FIRST_SLOTS, number, at;
    uint32_t *table = calloc(slots, sizeof(*table));

    if (!table)
        return -1;
    for (number = 0; number < self->count; number++) {
        for (at = self->entries[number].hash & (slots - 1); table[at]; at = (at + 1) & (slots - 1))
            continue;
        table[at] = (uint32_t)number + 1;
    }
    free(self->table);
    self->table = table;
    self->slots = slots;
    return 0;
}

static int grow_entries(Newest *self) {
    size_t room = self->room ? self->room * 2 : FIRST_SLOTS / 2;
    struct entry *entries = realloc(self->entries, room * sizeof(*entries));

    if (!entries)
        return -1;
    self->entries = entries;
    self->room = room;
    return 0;
}

/* Where a key, with its time if versions are wanted, is in the table, or would be. */
static size_t slot_of(const Newest *self, uint64_t hash, const char *key, size_t size,
                      int64_t timestamp) {
    size_t at = hash & (self->slots - 1);

    for (; self->table[at]; at = (at + 1) & (self->slots - 1)) {
        const struct entry *entry = &self->entries[self->table[at] - 1];

        if (entry->hash == hash && entry->key == size && !memcmp(entry->bytes, key, size) &&
            (!self->with_versions || entry->timestamp == timestamp))
            break;
    }
    return at;
}

static int take(Newest *self, const struct change *change, const char *bytes) {
    const char *key = bytes + change->at, *value = key + change->key;
    size_t size = (size_t)change->key, held = 0, at;
    uint64_t hash = hash_of(key, size, self->with_versions ? change->timestamp : 0);
    struct entry *entry;
    char *room = NULL;

    if (change->value >= 0)
        held = (size_t)change->value + (self->with_headers ? (size_t)change->headers : 0);
    if (!self->with_headers)
        value += change->headers;
    if ((self->count * 2 >= self->slots && grow_table(self)) ||
        (self->count == self->room && grow_entries(self)))
        return -1;
    at = slot_of(self, hash, key, size, change->timestamp);
    entry = &self->entries[self->table[at] ? self->table[at] - 1 : self->count];
    if (!self->table[at] || entry->room < size + held) {
        room = allocate(self, size + held);
        if (!room)
            return -1;
        memcpy(room, key, size);
        entry->bytes = room;
        entry->room = size + held;
    }
    if (!self->table[at]) {
        entry->hash = hash;
        entry->key = size;
        self->table[at] = (uint32_t)++self->count;
    }
    if (held)
        memcpy(entry->bytes + size, value, held);
    entry->value = change->value < 0 ? -1 : (Py_ssize_t)held;
    entry->timestamp = change->timestamp;
    return 0;
}

static PyObject *newest_add(Newest *self, PyObject *run) {
    const struct changes *changes = run_changes(run);
    size_t index;

    if (!changes)
        return NULL;
    for (index = 0; index < changes->count; index++)
        if (changes->each[index].key >= 0 && take(self, &changes->each[index], changes->bytes))
            return PyErr_NoMemory();
    Py_RETURN_NONE;
}

/* -- what a store is given ----------------------------------------------------------------- */

static PyObject *value_of(const struct entry *entry, int stamped) {
    size_t size = (size_t)entry->value;
    uint64_t time = (uint64_t)entry->timestamp;
    PyObject *value;
    char *to;
    int index;

    if (entry->value < 0)
        return Py_NewRef(Py_None);
    if (!stamped)
        return PyBytes_FromStringAndSize(entry->bytes + entry->key, entry->value);
    value = PyBytes_FromStringAndSize(NULL, entry->value + 8);
    if (value) {
        to = PyBytes_AsString(value);
        for (index = 7; index >= 0; index--, time >>= 8)
            to[index] = (char)time;
        memcpy(to + 8, entry->bytes + entry->key, size);
    }
    return value;
}

/* (key, timestamp, value). */
static PyObject *row_of(const struct entry *entry) {
    PyObject *row = PyTuple_New(3);

    if (row && !fill(row, 0, PyBytes_FromStringAndSize(entry->bytes, (Py_ssize_t)entry->key)) &&
        !fill(row, 1, PyLong_FromLongLong(entry->timestamp)) && !fill(row, 2, value_of(entry, 0)))
        return row;
    Py_XDECREF(row);
    return NULL;
}

/* (key, value). */
static PyObject *pair_of(const struct entry *entry, int stamped) {
    PyObject *pair = PyTuple_New(2);

    if (pair && !fill(pair, 0, PyBytes_FromStringAndSize(entry->bytes, (Py_ssize_t)entry->key)) &&
        !fill(pair, 1, value_of(entry, stamped)))
        return pair;
    Py_XDECREF(pair);
    return NULL;
}

static PyObject *newest_rows(Newest *self, PyObject *unused) {
    PyObject *list = PyList_New((Py_ssize_t)self->count), *row;
    size_t number;

    (void)unused;
    for (number = 0; list && number < self->count; number++) {
        row = row_of(&self->entries[number]);
        if (!row || PyList_SetItem(list, (Py_ssize_t)number, row))
            Py_CLEAR(list);
    }
    return list;
}

static int by_key(const void *left, const void *right) {
    const struct entry *one = *(const struct entry *const *)left;
    const struct entry *other = *(const struct entry *const *)right;
    size_t shared = one->key < other->key ? one->key : other->key;
    int found = memcmp(one->bytes, other->bytes, shared);

    return found ? found : (one->key > other->key) - (one->key < other->key);
}

/* In the order of their keys: RocksDB sorts what is nearly sorted in much less time. */
static PyObject *sorted_list(const struct entry **entries, size_t count, int stamped) {
    PyObject *list = PyList_New((Py_ssize_t)count), *pair;
    size_t number;

    qsort(entries, count, sizeof(*entries), by_key);
    for (number = 0; list && number < count; number++) {
        pair = pair_of(entries[number], stamped);
        if (!pair || PyList_SetItem(list, (Py_ssize_t)number, pair))
            Py_CLEAR(list);
    }
    return list;
}

static PyObject *newest_entries(Newest *self, PyObject *args, PyObject *kwargs) {
    int stamped;
    const struct entry **entries;
    size_t number;
    PyObject *list;
    static char *names[] = {"timestamped", NULL};

    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "$p", names, &stamped))
        return NULL;
    entries = malloc((self->count + 1) * sizeof(*entries));
    if (!entries)
        return PyErr_NoMemory();
    for (number = 0; number < self->count; number++)
        entries[number] = &self->entries[number];
    list = sorted_list(entries, self->count, stamped);
    free(entries);
    return list;
}

static Py_ssize_t newest_length(Newest *self) {
    return (Py_ssize_t)self->count;
}

static PyObject *newest_size(Newest *self, void *unused) {
    (void)unused;
    return PyLong_FromSize_t(self->held + self->count * OVERHEAD);
}

static PyMethodDef methods[] = {
    {"add", METHOD(newest_add), METH_O, "Take in the run that comes next."},
    {"rows", METHOD(newest_rows), METH_NOARGS, "Return key, timestamp and value of each."},
    {"entries", METHOD(newest_entries), METH_VARARGS | METH_KEYWORDS,
     "Return key and value of each, by key, with its timestamp in front if that is wanted."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef attributes[] = {
    {"size_bytes", (getter)(void (*)(void))newest_size, NULL, "About how much memory it takes.",
     NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot slots[] = {
    {Py_tp_doc, "Of each key of a changelog, the record that came last; see RecordRun.newest."},
    {Py_tp_dealloc, newest_dealloc},
    {Py_tp_methods, methods},
    {Py_tp_getset, attributes},
    {Py_sq_length, newest_length},
    {0, NULL},
};

PyTypeObject *newest_type;

PyType_Spec newest_spec = {
    .name = "headwater_native.NewestRecords",
    .basicsize = sizeof(Newest),
    .flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION,
    .slots = slots,
};

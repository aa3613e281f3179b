/* The plug-in's side towards librdkafka. Nothing here touches Python: librdkafka calls it from its
 * own threads, and from others that do not hold the global lock.
 */
#include "client.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define NAME "headwater"

struct client {
    atomic_int owners; /* librdkafka's configuration, and who has claimed it. */
    rd_kafka_t *handle;
    pthread_mutex_t lock;
    struct failure *first, **last;
    atomic_int has_failures;
};

_Thread_local int client_is_producing;
static _Thread_local struct client *made_last;
static _Thread_local int failures_only_next;

static on_new_t on_new;
static on_conf_destroy_t on_conf_destroy;
static on_acknowledgement_t on_acknowledgement;

/* Called by librdkafka with each configuration that names this library. */
__attribute__((visibility("default"))) rd_kafka_resp_err_t
conf_init(rd_kafka_conf_t *conf, void **opaque, char *errstr, size_t errstr_size) {
    struct client *client;
    rd_kafka_resp_err_t error;

    (void)opaque;
    if (!rdkafka.version)
        return RD_KAFKA_RESP_ERR_NO_ERROR; /* Nobody has asked for anything. */
    client = calloc(1, sizeof(*client));
    if (!client)
        return RD_KAFKA_RESP_ERR__FAIL;
    atomic_init(&client->owners, 1);
    atomic_init(&client->has_failures, 0);
    client->last = &client->first;
    pthread_mutex_init(&client->lock, NULL);
    /* Not by the settings: confluent_kafka keeps this one for itself, to free what we do not make. */
    if (failures_only_next &&
        rdkafka.conf_set(conf, "delivery.report.only.error", "true", errstr, errstr_size)) {
        client_release(client);
        return RD_KAFKA_RESP_ERR__FAIL;
    }
    error = rdkafka.conf_interceptor_add_on_conf_destroy(conf, NAME, on_conf_destroy, client);
    if (error) {
        client_release(client);
        return error;
    }
    return rdkafka.conf_interceptor_add_on_new(conf, NAME, on_new, client);
}

static rd_kafka_resp_err_t on_new(rd_kafka_t *handle, const rd_kafka_conf_t *conf, void *opaque,
                                  char *errstr, size_t errstr_size) {
    struct client *client = opaque;

    (void)conf, (void)errstr, (void)errstr_size;
    client->handle = handle;
    made_last = client;
    return rdkafka.interceptor_add_on_acknowledgement(handle, NAME, on_acknowledgement, client);
}

/* The last that librdkafka does with a client, or with a configuration that became none. */
static rd_kafka_resp_err_t on_conf_destroy(void *opaque) {
    if (made_last == opaque)
        made_last = NULL;
    client_release(opaque);
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

static size_t put(char *bytes, size_t at, const void *from, size_t length) {
    if (length)
        memcpy(bytes + at, from, length);
    return at + length;
}

/* Called with every record that is done with, most often delivered, in a broker's thread. */
static rd_kafka_resp_err_t on_acknowledgement(rd_kafka_t *handle, rd_kafka_message_t *message,
                                              void *opaque) {
    struct client *client = opaque;
    struct failure *failure;
    const char *topic;
    size_t topic_length, size, at;

    (void)handle;
    switch (message->err) {
    case RD_KAFKA_RESP_ERR_NO_ERROR:
    case RD_KAFKA_RESP_ERR__PURGE_QUEUE: /* Thrown away by ourselves. */
    case RD_KAFKA_RESP_ERR__PURGE_INFLIGHT:
    case RD_KAFKA_RESP_ERR__DESTROY:
        return RD_KAFKA_RESP_ERR_NO_ERROR;
    default:
        break;
    }
    if (client_is_producing || message->_private) /* The caller, or confluent_kafka, knows. */
        return RD_KAFKA_RESP_ERR_NO_ERROR;
    topic = rdkafka.topic_name(message->rkt);
    topic_length = strlen(topic);
    size = topic_length + message->key_len + message->len;
    failure = malloc(sizeof(*failure) + size);
    if (!failure)
        abort(); /* A record would be lost in silence: the process is replaced instead. */
    failure->next = NULL;
    failure->error = message->err;
    failure->partition = message->partition;
    failure->has_key = message->key != NULL;
    failure->has_value = message->payload != NULL;
    failure->topic_length = topic_length;
    failure->key_length = failure->has_key ? message->key_len : 0;
    failure->value_length = failure->has_value ? message->len : 0;
    at = put(failure->bytes, 0, topic, topic_length);
    at = put(failure->bytes, at, message->key, failure->key_length);
    put(failure->bytes, at, message->payload, failure->value_length);
    pthread_mutex_lock(&client->lock);
    *client->last = failure;
    client->last = &failure->next;
    atomic_store(&client->has_failures, 1);
    pthread_mutex_unlock(&client->lock);
    return RD_KAFKA_RESP_ERR_NO_ERROR;
}

void client_expect(int failures_only) {
    made_last = NULL;
    failures_only_next = failures_only;
}

struct client *client_claim(void) {
    struct client *client = made_last;

    made_last = NULL;
    if (client)
        atomic_fetch_add(&client->owners, 1);
    return client;
}

void client_release(struct client *client) {
    struct failure *failure, *next;

    if (atomic_fetch_sub(&client->owners, 1) != 1)
        return;
    for (failure = client->first; failure; failure = next) {
        next = failure->next;
        free(failure);
    }
    pthread_mutex_destroy(&client->lock);
    free(client);
}

rd_kafka_t *client_handle(const struct client *client) {
    return client->handle;
}

int client_has_failures(struct client *client) {
    return atomic_load(&client->has_failures);
}

struct failure *client_take_failures(struct client *client) {
    struct failure *taken;

    pthread_mutex_lock(&client->lock);
    taken = client->first;
    client->first = NULL;
    client->last = &client->first;
    atomic_store(&client->has_failures, 0);
    pthread_mutex_unlock(&client->lock);
    return taken;
}

/* A librdkafka client that belongs to a confluent_kafka object, and its failed deliveries.
 *
 * librdkafka hands it over itself: `conf_init` is called because `plugin.library.paths` names this
 * file, and registers an interceptor that is called with each client while it is made. So no
 * struct of confluent_kafka is guessed.
 */
#ifndef HEADWATER_CLIENT_H
#define HEADWATER_CLIENT_H

#include "librdkafka.h"

/* A record that was queued and could not be delivered. */
struct failure {
    struct failure *next;
    rd_kafka_resp_err_t error;
    int32_t partition;
    int has_key, has_value;
    size_t topic_length, key_length, value_length;
    char bytes[]; /* Topic, key, value. */
};

struct client;

/* Forget a client that nobody has claimed; to be called before one is made, in the same thread.
 *
 * `failures_only` spares librdkafka the delivery reports of records that were delivered. Nothing
 * wakes a flush then when the last one is, which may take it 10 ms to find out.
 */
void client_expect(int failures_only);

/* Return the client that this thread has made last, or null. Give it back by `client_release`. */
struct client *client_claim(void);
void client_release(struct client *client);

rd_kafka_t *client_handle(const struct client *client);

/* Whether there are failures; cheap, and right for whatever a flush has waited for. */
int client_has_failures(struct client *client);

/* Take all failures, oldest first; free each. */
struct failure *client_take_failures(struct client *client);

/* While this thread is inside producev, a refusal is its result and no failed delivery. */
extern _Thread_local int client_is_producing;

#endif

/* What this plug-in uses of librdkafka's public C API, declared by hand, and where it was found.
 *
 * Nothing is linked: confluent_kafka brings a librdkafka of its own, whose file has a name that
 * changes from wheel to wheel. `librdkafka_find` asks the loader for each function by its name.
 * All types but the message are opaque, and that is part of the stable ABI (librdkafka 1.0 to 2.x).
 */
#ifndef HEADWATER_LIBRDKAFKA_H
#define HEADWATER_LIBRDKAFKA_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef struct rd_kafka_s rd_kafka_t;
typedef struct rd_kafka_conf_s rd_kafka_conf_t;
typedef struct rd_kafka_topic_s rd_kafka_topic_t;
typedef struct rd_kafka_topic_conf_s rd_kafka_topic_conf_t;
typedef struct rd_kafka_queue_s rd_kafka_queue_t;
typedef struct rd_kafka_headers_s rd_kafka_headers_t;

typedef int rd_kafka_resp_err_t; /* An enumeration there. */
typedef int rd_kafka_conf_res_t;
typedef int rd_kafka_timestamp_type_t;

typedef struct rd_kafka_message_s {
    rd_kafka_resp_err_t err;
    rd_kafka_topic_t *rkt;
    int32_t partition;
    void *payload;
    size_t len;
    void *key;
    size_t key_len;
    int64_t offset;
    void *_private;
} rd_kafka_message_t;

/* What follows in the arguments of producev. */
enum {
    RD_KAFKA_VTYPE_END,
    RD_KAFKA_VTYPE_TOPIC,
    RD_KAFKA_VTYPE_RKT,
    RD_KAFKA_VTYPE_PARTITION,
    RD_KAFKA_VTYPE_VALUE,
    RD_KAFKA_VTYPE_KEY,
    RD_KAFKA_VTYPE_OPAQUE,
    RD_KAFKA_VTYPE_MSGFLAGS,
    RD_KAFKA_VTYPE_TIMESTAMP,
    RD_KAFKA_VTYPE_HEADER,
    RD_KAFKA_VTYPE_HEADERS
};

#define RD_KAFKA_MSG_F_COPY 0x2
#define RD_KAFKA_PARTITION_UA ((int32_t)-1)

#define RD_KAFKA_RESP_ERR_NO_ERROR 0
#define RD_KAFKA_RESP_ERR__FAIL -196
#define RD_KAFKA_RESP_ERR__DESTROY -197
#define RD_KAFKA_RESP_ERR__QUEUE_FULL -184
#define RD_KAFKA_RESP_ERR__PURGE_QUEUE -152
#define RD_KAFKA_RESP_ERR__PURGE_INFLIGHT -151

typedef rd_kafka_resp_err_t on_new_t(rd_kafka_t *, const rd_kafka_conf_t *, void *, char *, size_t);
typedef rd_kafka_resp_err_t on_conf_destroy_t(void *);
typedef rd_kafka_resp_err_t on_acknowledgement_t(rd_kafka_t *, rd_kafka_message_t *, void *);

/* Every function that is used: result, name without "rd_kafka_", arguments. */
#define LIBRDKAFKA_FUNCTIONS(F)                                                                    \
    F(int, version, (void))                                                                        \
    F(const char *, version_str, (void))                                                           \
    F(rd_kafka_resp_err_t, conf_interceptor_add_on_new,                                            \
      (rd_kafka_conf_t *, const char *, on_new_t *, void *))                                       \
    F(rd_kafka_resp_err_t, conf_interceptor_add_on_conf_destroy,                                   \
      (rd_kafka_conf_t *, const char *, on_conf_destroy_t *, void *))                              \
    F(rd_kafka_resp_err_t, interceptor_add_on_acknowledgement,                                     \
      (rd_kafka_t *, const char *, on_acknowledgement_t *, void *))                                \
    F(rd_kafka_conf_res_t, conf_set,                                                                \
      (rd_kafka_conf_t *, const char *, const char *, char *, size_t))                             \
    F(rd_kafka_resp_err_t, last_error, (void))                                                     \
    F(const char *, err2str, (rd_kafka_resp_err_t))                                                \
    F(rd_kafka_queue_t *, queue_new, (rd_kafka_t *))                                               \
    F(void, queue_destroy, (rd_kafka_queue_t *))                                                   \
    F(void, queue_forward, (rd_kafka_queue_t *, rd_kafka_queue_t *))                               \
    F(rd_kafka_queue_t *, queue_get_partition, (rd_kafka_t *, const char *, int32_t))              \
    F(ssize_t, consume_batch_queue, (rd_kafka_queue_t *, int, rd_kafka_message_t **, size_t))      \
    F(void, message_destroy, (rd_kafka_message_t *))                                               \
    F(const char *, message_errstr, (const rd_kafka_message_t *))                                  \
    F(int64_t, message_timestamp, (const rd_kafka_message_t *, rd_kafka_timestamp_type_t *))       \
    F(rd_kafka_resp_err_t, message_headers, (const rd_kafka_message_t *, rd_kafka_headers_t **))   \
    F(rd_kafka_resp_err_t, header_get_all,                                                         \
      (const rd_kafka_headers_t *, size_t, const char **, const void **, size_t *))                \
    F(rd_kafka_headers_t *, headers_new, (size_t))                                                 \
    F(rd_kafka_resp_err_t, header_add,                                                             \
      (rd_kafka_headers_t *, const char *, ssize_t, const void *, ssize_t))                        \
    F(void, headers_destroy, (rd_kafka_headers_t *))                                               \
    F(rd_kafka_topic_t *, topic_new, (rd_kafka_t *, const char *, rd_kafka_topic_conf_t *))        \
    F(const char *, topic_name, (const rd_kafka_topic_t *))                                        \
    F(void, topic_destroy, (rd_kafka_topic_t *))                                                   \
    F(rd_kafka_resp_err_t, producev, (rd_kafka_t *, ...))

#define LIBRDKAFKA_FIELD(result, name, arguments) result(*name) arguments;

struct librdkafka {
    LIBRDKAFKA_FUNCTIONS(LIBRDKAFKA_FIELD)
};

/* The functions; all null until `librdkafka_find` has succeeded. */
extern struct librdkafka rdkafka;

/* Find every function in a library that is loaded already, or in those that it depends on.
 *
 * Returns 0, or -1 with the reason in `problem`; nothing has changed then.
 */
int librdkafka_find(const char *path, char *problem, size_t problem_size);

#endif

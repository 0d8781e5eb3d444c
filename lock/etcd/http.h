/* Private to lock/etcd/: requests to an etcd cluster by its JSON gateway, over HTTP/1.1.
 *
 * Keys and values are base64 in JSON. Every request is bounded in time, and goes to the next server
 * of the URL when one does not answer. Any thread may call each function. */
#ifndef LOCK_ETCD_HTTP_H
#define LOCK_ETCD_HTTP_H

#include <curl/curl.h>
#include <jansson.h>

#include "lock/client.h"

struct etcd; /* one cluster: its addresses, connections and login */

/* Makes a cluster without connecting. SECLOCK_OK, SECLOCK_CONFIG (bad URL) or SECLOCK_FAILED. Call
 * it one at a time, as drivers are opened. */
enum seclock_result etcd_open(const struct lock_core *core, const char *server,
                              struct etcd **etcd_out);
void etcd_close(struct etcd **etcd);

/* In a child of fork: closes the inherited sockets, and leaks the rest. */
void etcd_forget(struct etcd *etcd);

enum { ETCD_NOT_FOUND = 5 }; /* the code of a refusal, as gRPC numbers them: no such lease */

struct etcd_answer {
    json_t *json;  /* of SECLOCK_OK; NULL otherwise */
    int code;      /* of a refusal; 0: not refused */
    bool in_doubt; /* a sending was not answered, so that it may arrive later, or twice */
};

/* Sends a request, a JSON text, to a path such as "/v3/kv/txn": again when it is not answered, to
 * the next server if there are several, until `wait_ms` have passed. So the server may carry it out
 * more than once. SECLOCK_OK; SECLOCK_FAILED: certainly not done by any sending; SECLOCK_UNKNOWN.
 * The reason goes to lock_set_error. The caller frees the answer in any case. */
enum seclock_result etcd_call(struct etcd *etcd, const char *path, const char *body, int wait_ms,
                              struct etcd_answer *answer_out);
void etcd_answer_free(struct etcd_answer *answer);

/* ---- answers: input from outside, of which any field may be missing or of another type ---- */

/* Returns a number, which the gateway writes as a text; 0 when it is missing, not one, or below 0.
 * */
int64_t etcd_number(const json_t *object, const char *name);

/* Returns a number of the answer's header: "revision" or "raft_term". */
int64_t etcd_header(const struct etcd_answer *answer, const char *name);

/* Returns the response number `index` of a transaction, or NULL; and of a range, as the answer or
 * in a response, the first key with its values, or NULL. */
const json_t *etcd_response(const json_t *txn, size_t index, const char *name);
const json_t *etcd_first_key(const json_t *range);

/* ---- transfers, for answers that come in pieces ---- */

/* A request that its owner runs by libcurl. Kept in place from begin to end. */
struct etcd_transfer {
    struct etcd *etcd;
    CURL *easy;
    struct curl_slist *headers, *addresses;
    size_t server;
    int socket;  /* the last one that it opened; -1: none */
    bool opened; /* one since the last sending */
    int login;   /* the number of the login in the headers */
    char error[CURL_ERROR_SIZE];
};

/* Prepares a transfer to the server that answered last. False: no memory. */
bool etcd_transfer_begin(struct etcd *etcd, struct etcd_transfer *transfer);
void etcd_transfer_end(struct etcd_transfer *transfer);

/* Sets path and body, which stays the caller's and in place. False: no memory. */
bool etcd_transfer_set(struct etcd_transfer *transfer, const char *path, const char *body);

#endif

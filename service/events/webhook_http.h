/* One request to a webhook: its signature (Standard Webhooks), the transfer, and its outcome.
 *
 *   webhook_call_begin ─► a handle of libcurl, which the caller runs ─► webhook_call_end */
#ifndef SECKILL_SERVICE_EVENTS_WEBHOOK_HTTP_H
#define SECKILL_SERVICE_EVENTS_WEBHOOK_HTTP_H

#include <curl/curl.h>

#include "service/config/options.h"
#include "service/events/webhook_target.h"
#include "sql/events/webhooks.h"

/* ---- signatures and waits ---- */

enum {
    WEBHOOK_SIGNATURE_SIZE = 48,             /* "v1," and the base64 of 32 bytes, with its NUL */
    WEBHOOK_HEAD_MAX = WEBHOOK_ID_SIZE + 24, /* bytes of "id.seconds." */
};

/* Makes a secret of 32 random bytes, as base64. Any thread. */
void webhook_secret_make(char secret_out[WEBHOOK_SECRET_SIZE]);

/* Signs `text`, "id.seconds.body", with a secret in base64. False when the secret is not base64. */
bool webhook_sign(const char *secret, const char *text, size_t length,
                  char signature_out[WEBHOOK_SIGNATURE_SIZE]);

/* Reads Retry-After: seconds, or a date of HTTP. Returns the seconds to wait, at most
 * RETRY_AFTER_S_MAX; 0 for a text that makes no sense, or a date that has passed. */
unsigned webhook_retry_after_s(const char *text, int64_t now_ms);

/* The wait before the next try after so many failures in a row (at least 1), the first of them
 * `failing_ms` ago: 1 s, doubled up to 15 s in the first hour, then up to a quarter of the time
 * since that hour, never above `max_ms`. `random` takes away up to a half. */
int64_t webhook_backoff_ms(unsigned failures, int64_t failing_ms, int64_t max_ms, int random);

/* ---- headers ---- */

/* Adds a header of an operator to the lines of webhook_settings.headers. NULL, or a constant text
 * that says what is wrong: the form of name or value, a name that comes twice or that the service
 * or HTTP itself sets, or too many. */
const char *webhook_header_add(char lines[WEBHOOK_HEADERS_SIZE], const char *name,
                               const char *value);

/* ---- requests ---- */

/* What requests are made with. It outlives them. */
struct webhook_client {
    struct networks own; /* of webhook_networks */
    const char *ca_file; /* "": the system's authorities */
};

/* False when the option is not valid, which config_load has checked. */
void webhook_client_init(struct webhook_client *client, const struct config *config);

enum webhook_outcome {
    WEBHOOK_OUTCOME_OK, /* 2xx */
    WEBHOOK_OUTCOME_FAILED,
    WEBHOOK_OUTCOME_TIMEOUT,
    WEBHOOK_OUTCOME_REFUSED,  /* none of its addresses is allowed; nothing was sent */
    WEBHOOK_OUTCOME_DISABLED, /* 410: it wants no more */
};

/* A request. The caller sets the first part. */
struct webhook_call {
    const struct webhook_client *client;
    const struct ledger_webhook *webhook; /* its settings and secrets */
    const char *id;
    char *body; /* with WEBHOOK_HEAD_MAX bytes before it, which are overwritten */
    size_t length;
    int64_t now_ms; /* by the ledger's clock */
    long timeout_ms;

    CURL *easy;                       /* while it is under way */
    unsigned status;                  /* of HTTP; 0: there was no answer */
    unsigned retry_after_s;           /* 0: the answer has none */
    char answer[WEBHOOK_ANSWER_SIZE]; /* its beginning, or why there was none */

    struct curl_slist *headers; /* private from here on */
    char error[CURL_ERROR_SIZE];
    size_t answer_length, received;
    bool tls;
    bool refused, tried; /* an address that is not allowed, one that is */
};

/* Prepares the transfer: `easy` is ready to be run by any means of libcurl. */
void webhook_call_begin(struct webhook_call *call);

/* Takes the outcome of a transfer that has ended with `code`, and frees the handle; the caller has
 * taken it out of a multi handle before. */
enum webhook_outcome webhook_call_end(struct webhook_call *call, CURLcode code);

/* Frees the handle of a transfer that is not to go on, likewise. */
void webhook_call_drop(struct webhook_call *call);

#endif

/* Calls the service over HTTP; the only file that knows libcurl. */
#ifndef SECKILL_CTL_HTTP_H
#define SECKILL_CTL_HTTP_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#include "base/identifier.h"
#include "ctl/config.h"
#include "ctl/context.h"

/* The four ways in which a call ends. */
enum outcome {
    OUTCOME_OK,
    OUTCOME_REFUSED, /* the service says no, and changed nothing */
    OUTCOME_FAILED,  /* nobody could say yes or no; certainly nothing was changed */
    OUTCOME_UNKNOWN, /* the call may have been carried out or not */
};

/* Selects the address and the token of a call. */
enum call_class { CLASS_OPS, CLASS_ADMIN, CLASS_BUYER, CLASS_SHOP };

struct call {
    enum call_class class;
    const char *method;
    const char *path;              /* with its query, encoded */
    const json_t *body;            /* NULL: no body; owned by the caller */
    const char *key;               /* Idempotency-Key; NULL: no key */
    const struct address *address; /* NULL: the first of the class that can be reached */
};

enum { CODE_SIZE = 48, WHY_SIZE = 512 };

struct reply {
    enum outcome outcome;
    long status; /* of HTTP; 0: no answer */
    char *text;  /* the body, ended by NUL; never NULL after a call */
    size_t length;
    json_t *json;         /* the body, where it is JSON; else NULL */
    char code[CODE_SIZE]; /* of a problem; else empty */
    char why[WHY_SIZE];   /* why the outcome is not OK, one sentence */
    bool repeated;        /* an earlier try of this call had an unknown outcome */
};

/* Makes a client for one thread; the caller closes it. It reads the configuration until then. */
struct http *http_open(const struct config *config, long timeout_s);
void http_close(struct http *http);

/* Makes the call and waits for its answer, up to the time-out. Repeats a call with an unknown
 * outcome twice: every call of the service either has a key or does the same when repeated. The
 * caller frees the reply. */
void http_call(struct http *http, const struct call *call, struct reply *reply_out);
void reply_free(struct reply *reply);

/* The longest text to encode, with its NUL: a cursor has an order id and a ref. */
enum { PLAIN_SIZE = 192, ENCODED_SIZE = 3 * PLAIN_SIZE };

/* Encodes a text for a path or a query: everything but letters, digits and a few signs becomes %XX.
 * Returns `out`. */
const char *http_encode(const char *text, char out[ENCODED_SIZE]);

#endif

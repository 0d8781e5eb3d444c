/* Webhooks in the ledger: receivers of events, what each wants, and how far it has got.
 *
 * why_generation: the sender notes progress after the fact. Every change by an operator that moves
 * a webhook's position or alters its requests raises its generation, and a note with an older one
 * changes nothing. A webhook that is made again under its name has a greater generation, too. */
#ifndef SQL_WEBHOOKS_H
#define SQL_WEBHOOKS_H

#include "sql/events/events.h"

enum {
    WEBHOOKS_MAX = 64,
    WEBHOOK_URL_SIZE = 513,
    WEBHOOK_SKUS_MAX = 32,
    WEBHOOK_HEADERS_SIZE = 2049,
    WEBHOOK_SECRET_SIZE = 65,  /* of its base64, with the NUL */
    WEBHOOK_SECRET_HOURS = 24, /* for which a replaced secret goes on signing */
    WEBHOOK_ANSWER_SIZE = 201,
    WEBHOOK_ID_SIZE = IDENTIFIER_SIZE, /* of a request's id */
    WEBHOOK_OPEN_MAX = 64,             /* a webhook's requests that are being tried */
    WEBHOOK_UNDELIVERED_MAX = 256,     /* a webhook's requests that the ledger keeps */
};

/* Settings that are numbers: X(name, min, max, default) */
#define WEBHOOK_NUMBERS(X)                                                                         \
    X(batch, 1, 1000, 1)             /* events of a request, at most */                            \
    X(concurrency, 1, 16, 4)         /* requests at a time, at most */                             \
    X(timeout_s, 1, 60, 10)          /* of a request */                                            \
    X(retry_max_s, 1, 3600, 3600)    /* the longest wait between two tries */                      \
    X(give_up_s, 1, 1209600, 259200) /* for which a request is tried */

#define WEBHOOK_MAX(name, min, max, usual) WEBHOOK_MAX_##name = max,
enum { WEBHOOK_NUMBERS(WEBHOOK_MAX) };
#undef WEBHOOK_MAX

/* X(id, name) */
#define WEBHOOK_STATES(X) X(ACTIVE, "active") X(PAUSED, "paused") X(DISABLED, "disabled")

/* Why the sender has disabled a webhook: it answered 410, it failed for days, or events that it had
 * not got yet were deleted. */
#define WEBHOOK_REASONS(X) X(NONE, "") X(GONE, "gone") X(FAILING, "failing") X(EXPIRED, "expired")

/* What the next try waits for: the pause of a request that has failed, while others go on; the
 * pause of a receiver that fails; or the time that it has asked for. */
#define WEBHOOK_WAITS(X)                                                                           \
    X(NONE, "") X(RETRY, "retry") X(FAILING, "failing") X(RETRY_AFTER, "retry_after")

#define WEBHOOK_STATE_ID(id, name) WEBHOOK_##id,
#define WEBHOOK_REASON_ID(id, name) WEBHOOK_REASON_##id,
#define WEBHOOK_WAIT_ID(id, name) WEBHOOK_WAIT_##id,
enum webhook_state { WEBHOOK_STATES(WEBHOOK_STATE_ID) WEBHOOK_STATE_COUNT };
enum webhook_reason { WEBHOOK_REASONS(WEBHOOK_REASON_ID) WEBHOOK_REASON_COUNT };
enum webhook_wait { WEBHOOK_WAITS(WEBHOOK_WAIT_ID) WEBHOOK_WAIT_COUNT };
#undef WEBHOOK_STATE_ID
#undef WEBHOOK_REASON_ID
#undef WEBHOOK_WAIT_ID

extern const char *const webhook_state_names[], *const webhook_reason_names[];
extern const char *const webhook_wait_names[];

/* What an operator sets. */
struct webhook_settings {
    char url[WEBHOOK_URL_SIZE]; /* visible ASCII */
    uint32_t types;             /* a bit for each enum ledger_event_type; 0: all */
    bool cloudevents;           /* the content type is that of CloudEvents, not application/json */
    bool headers_stay;          /* in a change: those of before stay */
    size_t sku_count;           /* 0: all */
    char skus[WEBHOOK_SKUS_MAX][IDENTIFIER_SIZE];
    char headers[WEBHOOK_HEADERS_SIZE]; /* lines "NAME: VALUE"; never logged, values never shown */
#define WEBHOOK_NUMBER(name, min, max, usual) uint32_t name;
    WEBHOOK_NUMBERS(WEBHOOK_NUMBER)
};
#undef WEBHOOK_NUMBER

/* What the sender notes. Times are in ms since 1970 by the ledger's clock, 0: none. */
struct webhook_progress {
    uint64_t position;  /* of the next event to be delivered */
    uint64_t delivered; /* in a note: since the last one */
    uint32_t failures;  /* failed requests since the last success */
    int64_t failing_since_ms, next_try_ms, last_ms;
    enum webhook_wait wait; /* why next_try_ms */
    unsigned last_status;   /* of HTTP; 0: there was no answer */
    char last_answer[WEBHOOK_ANSWER_SIZE];
};

struct ledger_webhook {
    char name[IDENTIFIER_SIZE];
    uint64_t generation;
    enum webhook_state state;
    enum webhook_reason reason;
    struct webhook_settings settings;
    struct webhook_progress progress;
    char secret[WEBHOOK_SECRET_SIZE];     /* base64; never logged or shown */
    char old_secret[WEBHOOK_SECRET_SIZE]; /* "": none that still signs */
    int64_t created_ms;
    uint32_t undelivered;      /* events that were given up */
    int64_t retrying_since_ms; /* of the request set aside that has failed longest; 0: none */
};

/* A request that was set aside: its receiver refuses it, and the webhook's position has passed it.
 * The sender goes on to try it, for give_up_s; then it stays until an operator sends it again. */
struct webhook_aside {
    char id[IDENTIFIER_SIZE]; /* webhook-id */
    uint32_t events;
    int64_t failing_since_ms, given_up_ms; /* given_up_ms is 0 while it is tried */
    char answer[WEBHOOK_ANSWER_SIZE];      /* the last one, with the status in front */
    const char *body;                      /* valid during a visit */
};

/* True when the webhook is to get the event. Any thread. */
bool webhook_wants(const struct webhook_settings *settings, const struct ledger_event *event);

/* How many events of the feed it has not got yet, those that it does not want included. Any
 * thread. */
uint64_t webhook_lag(const struct ledger_webhook *webhook,
                     const struct ledger_event_bounds *bounds);

/* Reads all webhooks by their names; `webhooks_out` has room for WEBHOOKS_MAX. Leaves out those
 * whose rows make no sense (ledger_fault). LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_webhooks_list(struct ledger *ledger, struct ledger_webhook *webhooks_out,
                                        size_t *count_out);

/* LEDGER_NO: there is none of this name. LEDGER_DAMAGED: its row makes no sense. */
enum ledger_result ledger_webhook_find(struct ledger *ledger, const char *name,
                                       struct ledger_webhook *webhook_out);

/* ---- operators ---- */

/* Changes a webhook's settings, and lets it be tried at once, also a disabled one; a paused one
 * stays so. Or makes it: it gets the events from now on. `secret` is for a new one and, if
 * `rotate`, replaces that of an old one; while the former one still signs, nothing is replaced, and
 * `secret` gets the present one, so that a repeated call breaks no signature. LEDGER_LIMIT: there
 * are WEBHOOKS_MAX already. LEDGER_UNKNOWN: it may be done. */
enum ledger_result ledger_webhook_put(struct ledger *ledger, const char *name,
                                      const struct webhook_settings *settings,
                                      char secret[WEBHOOK_SECRET_SIZE], bool rotate,
                                      bool *created_out);

/* LEDGER_NO: there is none of this name. */
enum ledger_result ledger_webhook_delete(struct ledger *ledger, const char *name);

/* Pauses a webhook that is active; LEDGER_OK also when there is nothing to change. Resuming one,
 * also a disabled one, makes it active, forgets its failures and ends every wait. */
enum ledger_result ledger_webhook_pause(struct ledger *ledger, const char *name);
enum ledger_result ledger_webhook_resume(struct ledger *ledger, const char *name);

/* Goes back or forth to the event at `position`. LEDGER_NO: there is none of this name.
 * LEDGER_LATE: the feed no longer has that event, or not yet. `bounds_out` is set except after
 * LEDGER_FAILED. */
enum ledger_result ledger_webhook_replay(struct ledger *ledger, const char *name, uint64_t position,
                                         struct ledger_event_bounds *bounds_out);

/* Visits the requests set aside, oldest first: those that are tried or, if `all`, also those given
 * up. A body of more than `size_max` bytes is left out (""), and so are rows that make no sense
 * (ledger_fault). The visit must not use the ledger. LEDGER_OK or LEDGER_FAILED. */
typedef void webhook_aside_visit(const struct webhook_aside *aside, void *context);
enum ledger_result ledger_webhook_asides(struct ledger *ledger, const char *name, bool all,
                                         uint32_t size_max, webhook_aside_visit *visit,
                                         void *context);

/* Lets a request that was given up be tried again or, if `discard`, forgets it. LEDGER_NO: there is
 * none of this id. LEDGER_LIMIT: WEBHOOK_OPEN_MAX are being tried. */
enum ledger_result ledger_webhook_resend(struct ledger *ledger, const char *name, const char *id,
                                         bool discard);

/* ---- the sender ---- */

/* Sets a request aside, or notes that it is given up, unless the generation is another one.
 * LEDGER_NO: it is not kept, because WEBHOOK_UNDELIVERED_MAX are. */
enum ledger_result ledger_webhook_set_aside(struct ledger *ledger,
                                            const struct ledger_webhook *webhook,
                                            const struct webhook_aside *aside);

/* Forgets a request that was set aside and is delivered. */
enum ledger_result ledger_webhook_delivered(struct ledger *ledger,
                                            const struct ledger_webhook *webhook, const char *id);

/* Notes how far it has got; a position never goes back. `webhook` has the generation that the
 * sender knows: if it is not the present one, nothing happens. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_webhook_note(struct ledger *ledger, const struct ledger_webhook *webhook);

/* Disables it, likewise. */
enum ledger_result ledger_webhook_disable(struct ledger *ledger,
                                          const struct ledger_webhook *webhook,
                                          enum webhook_reason reason);

#endif

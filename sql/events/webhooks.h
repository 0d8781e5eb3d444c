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
    WEBHOOK_BATCH_MAX = 1000,
    WEBHOOK_CONCURRENCY_MAX = 16,
    WEBHOOK_SECRET_SIZE = 65,  /* of its base64, with the NUL */
    WEBHOOK_SECRET_HOURS = 24, /* for which a replaced secret goes on signing */
    WEBHOOK_ANSWER_SIZE = 201,
};

/* X(id, name) */
#define WEBHOOK_STATES(X) X(ACTIVE, "active") X(PAUSED, "paused") X(DISABLED, "disabled")

/* Why the sender has disabled a webhook: it answered 410, it failed for days, or events that it had
 * not got yet were deleted. */
#define WEBHOOK_REASONS(X) X(NONE, "") X(GONE, "gone") X(FAILING, "failing") X(EXPIRED, "expired")

#define WEBHOOK_STATE_ID(id, name) WEBHOOK_##id,
#define WEBHOOK_REASON_ID(id, name) WEBHOOK_REASON_##id,
enum webhook_state { WEBHOOK_STATES(WEBHOOK_STATE_ID) WEBHOOK_STATE_COUNT };
enum webhook_reason { WEBHOOK_REASONS(WEBHOOK_REASON_ID) WEBHOOK_REASON_COUNT };
#undef WEBHOOK_STATE_ID
#undef WEBHOOK_REASON_ID

const char *webhook_state_name(enum webhook_state state);
const char *webhook_reason_name(enum webhook_reason reason);

/* What an operator sets. */
struct webhook_settings {
    char url[WEBHOOK_URL_SIZE]; /* visible ASCII */
    uint32_t types;             /* a bit for each enum ledger_event_type; 0: all */
    uint32_t batch, concurrency;
    size_t sku_count; /* 0: all */
    char skus[WEBHOOK_SKUS_MAX][IDENTIFIER_SIZE];
};

/* What the sender notes. Times are in ms since 1970 by the ledger's clock, 0: none. */
struct webhook_progress {
    uint64_t position;  /* of the next event to be delivered */
    uint64_t delivered; /* in a note: since the last one */
    uint32_t failures;  /* failed requests since the last success */
    int64_t failing_since_ms, next_try_ms, last_ms;
    unsigned last_status; /* of HTTP; 0: there was no answer */
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

/* Changes a webhook's settings, and lets it be tried at once, or makes it: it gets the events from
 * now on. `secret` is for a new one and, if `rotate`, replaces that of an old one. LEDGER_LIMIT:
 * there are WEBHOOKS_MAX already. LEDGER_UNKNOWN: it may be done. */
enum ledger_result ledger_webhook_put(struct ledger *ledger, const char *name,
                                      const struct webhook_settings *settings, const char *secret,
                                      bool rotate, bool *created_out);

/* LEDGER_NO: there is none of this name. */
enum ledger_result ledger_webhook_delete(struct ledger *ledger, const char *name);

/* Pauses a webhook that is active. Resuming one, also a disabled one, makes it active, forgets its
 * failures and lets it be tried at once. LEDGER_OK also when there is nothing to change. */
enum ledger_result ledger_webhook_pause(struct ledger *ledger, const char *name);
enum ledger_result ledger_webhook_resume(struct ledger *ledger, const char *name);

/* Goes back or forth to the event at `position`. LEDGER_NO: there is none of this name.
 * LEDGER_LATE: the feed no longer has that event, or not yet. `bounds_out` is set except after
 * LEDGER_FAILED. */
enum ledger_result ledger_webhook_replay(struct ledger *ledger, const char *name, uint64_t position,
                                         struct ledger_event_bounds *bounds_out);

/* ---- the sender ---- */

/* Notes how far it has got; a position never goes back. `webhook` has the generation that the
 * sender knows: if it is not the present one, nothing happens. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_webhook_note(struct ledger *ledger, const struct ledger_webhook *webhook);

/* Disables it, likewise. */
enum ledger_result ledger_webhook_disable(struct ledger *ledger,
                                          const struct ledger_webhook *webhook,
                                          enum webhook_reason reason);

#endif

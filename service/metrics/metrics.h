/* Counters, gauges and histograms, and their Prometheus text. */
#ifndef SECKILL_SERVICE_METRICS_METRICS_H
#define SECKILL_SERVICE_METRICS_METRICS_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* X(id, name, labels, help). Rows of one name must be adjacent: Prometheus needs one HELP before
 * them, the first row's. */
#define METRICS_COUNTERS(X)                                                                        \
    X(ORDERS_ACCEPTED, "seckill_orders_total", "outcome=\"accepted\"", "Orders by outcome.")       \
    X(ORDERS_REPLAYED, "seckill_orders_total", "outcome=\"replayed\"", "")                         \
    X(ORDERS_SOLD_OUT, "seckill_orders_total", "outcome=\"sold_out\"", "")                         \
    X(ORDERS_NOT_STARTED, "seckill_orders_total", "outcome=\"not_started\"", "")                   \
    X(ORDERS_ENDED, "seckill_orders_total", "outcome=\"ended\"", "")                               \
    X(ORDERS_PAUSED, "seckill_orders_total", "outcome=\"paused\"", "")                             \
    X(ORDERS_LIMIT, "seckill_orders_total", "outcome=\"limit_reached\"", "")                       \
    X(ORDERS_UNKNOWN_SKU, "seckill_orders_total", "outcome=\"unknown_sku\"", "")                   \
    X(ORDERS_KEY_REUSED, "seckill_orders_total", "outcome=\"key_reused\"", "")                     \
    X(ORDERS_RATE_LIMITED, "seckill_orders_total", "outcome=\"rate_limited\"", "")                 \
    X(ORDERS_OVERLOADED, "seckill_orders_total", "outcome=\"overloaded\"", "")                     \
    X(ORDERS_UNAVAILABLE, "seckill_orders_total", "outcome=\"unavailable\"", "")                   \
    X(ORDERS_OUTCOME_UNKNOWN, "seckill_orders_total", "outcome=\"outcome_unknown\"", "")           \
    X(ORDERS_PAID, "seckill_orders_paid_total", "", "Orders paid.")                                \
    X(ORDERS_CANCELLED, "seckill_orders_cancelled_total", "", "Orders cancelled.")                 \
    X(ORDERS_EXPIRED, "seckill_orders_expired_total", "",                                          \
      "Orders that expired, as they were not paid in time.")                                       \
    X(ORDERS_REFUNDED, "seckill_orders_refunded_total", "", "Paid orders refunded.")               \
    X(ORDERS_EXTENDED, "seckill_orders_extended_total", "", "Reservations extended.")              \
    X(ORDERS_CUT, "seckill_orders_cut_total", "",                                                  \
      "Orders that kept a part of their units when the others were cancelled or refunded.")        \
    X(PAYMENTS_IN_TIME, "seckill_payments_total", "outcome=\"in_time\"",                           \
      "Payments told with a payment_ref, each once, by what they were answered.")                  \
    X(PAYMENTS_RETAKEN, "seckill_payments_total", "outcome=\"retaken\"", "")                       \
    X(PAYMENTS_TOO_LATE, "seckill_payments_total", "outcome=\"too_late\"", "")                     \
    X(PAYMENTS_ALREADY_PAID, "seckill_payments_total", "outcome=\"already_paid\"", "")             \
    X(PAYMENTS_REFUNDED, "seckill_payments_refunded_total", "",                                    \
      "Payments that the shop has paid back.")                                                     \
    X(PAYMENTS_FAILED, "seckill_payments_failed_total", "",                                        \
      "Payments that have failed after they had paid their orders.")                               \
    X(PURGED_KEYS, "seckill_purged_total", "what=\"keys\"",                                        \
      "What retention_days has deleted of rounds that are over.")                                  \
    X(PURGED_USERS, "seckill_purged_total", "what=\"users\"", "")                                  \
    X(EVENTS_PUBLISHED, "seckill_events_published_total", "",                                      \
      "Events that this daemon has given a position in the feed.")                                 \
    X(UNAUTHORIZED_ADMIN, "seckill_unauthorized_total", "class=\"admin\"",                         \
      "Calls refused with 401, by the class of their route.")                                      \
    X(UNAUTHORIZED_SHOP, "seckill_unauthorized_total", "class=\"shop\"", "")                       \
    X(CALLS_HELD, "seckill_calls_held_total", "",                                                  \
      "Calls that waited before they were handled, for the sake of orders.")                       \
    X(CONNECTIONS_ROOM, "seckill_connections_closed_total", "reason=\"room\"",                     \
      "Connections closed: the longest waiting one to make room, one that was idle for too long, " \
      "and new ones as there is no room.")                                                         \
    X(CONNECTIONS_IDLE, "seckill_connections_closed_total", "reason=\"idle\"", "")                 \
    X(CONNECTIONS_FULL, "seckill_connections_closed_total", "reason=\"full\"", "")                 \
    X(RECOVERIES, "seckill_recoveries_total", "",                                                  \
      "Segments whose counters were set again from the ledger.")                                   \
    X(LEDGER_REFUSALS, "seckill_ledger_refusals_total", "",                                        \
      "Batches that the ledger refused for their fence, round or capacity.")                       \
    X(UNKNOWN_COMMITS, "seckill_unknown_commits_total", "",                                        \
      "Commits whose connection died before the answer came.")                                     \
    X(EXPIRY_TURNS, "seckill_expiry_turns_total", "",                                              \
      "Turns that the expiry worker has carried through, in the daemon that is elected.")          \
    X(WEBHOOK_OK, "seckill_webhook_deliveries_total", "result=\"ok\"",                             \
      "Requests to webhooks, by what came of them: disabled is 410, refused an address that is "   \
      "not allowed.")                                                                              \
    X(WEBHOOK_FAILED, "seckill_webhook_deliveries_total", "result=\"failed\"", "")                 \
    X(WEBHOOK_TIMEOUT, "seckill_webhook_deliveries_total", "result=\"timeout\"", "")               \
    X(WEBHOOK_REFUSED, "seckill_webhook_deliveries_total", "result=\"refused\"", "")               \
    X(WEBHOOK_DISABLED, "seckill_webhook_deliveries_total", "result=\"disabled\"", "")             \
    X(SOLD_OUT_FAST, "seckill_sold_out_fast_total", "",                                            \
      "Orders refused at once, without queueing, as their sale is known to be sold out.")          \
    X(STOCK_READS, "seckill_stock_reads_total", "",                                                \
      "Snapshots of sales' stock that were read from the ledger.")                                 \
    X(LOG_LINES_DROPPED, "seckill_log_lines_dropped_total", "",                                    \
      "Lines that the log's reader or disk did not take in time.")                                 \
    X(REDIS_RECONNECTS, "seckill_redis_reconnects_total", "",                                      \
      "Connections to Redis that were made again.")                                                \
    X(LEDGER_RECONNECTS, "seckill_ledger_reconnects_total", "",                                    \
      "Connections to the ledger that were made again.")

/* The statuses that the service answers with: 200, 201, 304 and those in PROBLEMS (answer.c asserts
 * that none is missing). Any other counts as status="other". */
/* clang-format off */
#define METRICS_STATUSES(X)                                                                        \
    X(200) X(201) X(304) X(400) X(401) X(403) X(404) X(405) X(408)                                 \
    X(409) X(410) X(413) X(414) X(415) X(422) X(429) X(431) X(503) X(505)
/* clang-format on */

/* X(id, name, help). service/live/gauges.c has the gauges that are read when the page is made. */
#define METRICS_GAUGES(X)                                                                          \
    X(LEDGER_DURABLE, "seckill_ledger_durable",                                                    \
      "1 while the ledger's settings put a commit on its disk before the answer; 0 until it said " \
      "so.")                                                                                       \
    X(REDIS_EVICTS, "seckill_redis_evicts",                                                        \
      "1 while Redis may drop keys, as its maxmemory-policy is not noeviction.")                   \
    X(REDIS_NODES_DOWN, "seckill_redis_nodes_down",                                                \
      "Masters of a Redis Cluster that took no write when last asked; 0 without a cluster.")

/* X(id, name, labels, unit, help); unit SECONDS: observed in ns, printed in s; CALL_SECONDS:
 * likewise with fewer bounds; ORDERS: a number of orders. Rows of one name must be adjacent. */
#define METRICS_HISTOGRAMS(X)                                                                      \
    X(BATCH_ORDERS, "seckill_batch_orders", "", ORDERS, "Orders that one batch carried.")          \
    X(ORDER_SECONDS, "seckill_order_seconds", "", SECONDS,                                         \
      "Time from the end of an order's request to its answer; of orders refused at once, 0.")      \
    X(REDIS_SECONDS, "seckill_redis_seconds", "", SECONDS, "Time of a round trip to Redis.")       \
    X(LEDGER_SECONDS, "seckill_ledger_seconds", "", SECONDS,                                       \
      "Time of a transaction or query of the ledger.")                                             \
    X(STAGE_QUEUE, "seckill_order_stage_seconds", "stage=\"queue\"", SECONDS,                      \
      "Time of an order in each stage: waiting for an order worker; its batch's round trips to "   \
      "Redis; its batch's commits; the rest of its batch; from the decision to the answer.")       \
    X(STAGE_REDIS, "seckill_order_stage_seconds", "stage=\"redis\"", SECONDS, "")                  \
    X(STAGE_LEDGER, "seckill_order_stage_seconds", "stage=\"ledger\"", SECONDS, "")                \
    X(STAGE_WORKER, "seckill_order_stage_seconds", "stage=\"worker\"", SECONDS, "")                \
    X(STAGE_ANSWER, "seckill_order_stage_seconds", "stage=\"answer\"", SECONDS, "")                \
    X(CALL_LOOKUP, "seckill_call_seconds", "call=\"lookup\"", CALL_SECONDS,                        \
      "Time from the end of a call's request to its answer, by the kind of the call; orders have " \
      "seckill_order_seconds.")                                                                    \
    X(CALL_PAYMENT, "seckill_call_seconds", "call=\"payment\"", CALL_SECONDS, "")                  \
    X(CALL_CANCEL, "seckill_call_seconds", "call=\"cancel\"", CALL_SECONDS, "")                    \
    X(CALL_LIST, "seckill_call_seconds", "call=\"list\"", CALL_SECONDS, "")                        \
    X(CALL_ADMIN, "seckill_call_seconds", "call=\"admin\"", CALL_SECONDS, "")                      \
    X(CALL_SALE, "seckill_call_seconds", "call=\"sale\"", CALL_SECONDS, "")                        \
    X(CALL_LISTING, "seckill_call_seconds", "call=\"listing\"", CALL_SECONDS, "")                  \
    X(CALL_WEBHOOK, "seckill_call_seconds", "call=\"webhook\"", CALL_SECONDS, "")                  \
    X(EVENT_SECONDS, "seckill_event_seconds", "", CALL_SECONDS,                                    \
      "Time from an event's transaction to its place in the feed, by the ledger's clock.")

#define METRICS_COUNTER_ID(id, name, labels, help) METRIC_##id,
#define METRICS_STATUS_ID(status) METRIC_HTTP_##status,
#define METRICS_GAUGE_ID(id, name, help) GAUGE_##id,
#define METRICS_HISTOGRAM_ID(id, name, labels, unit, help) HISTOGRAM_##id,

/* METRIC_ORDERS_ACCEPTED, …, METRIC_HTTP_200, … */
enum metrics_counter {
    METRICS_COUNTERS(METRICS_COUNTER_ID) METRICS_STATUSES(METRICS_STATUS_ID) METRIC_HTTP_OTHER,
    METRIC_COUNT
};

/* GAUGE_QUEUE_DEPTH, … */
enum metrics_gauge { METRICS_GAUGES(METRICS_GAUGE_ID) GAUGE_COUNT };

/* HISTOGRAM_ORDER_SECONDS, … */
enum metrics_histogram { METRICS_HISTOGRAMS(METRICS_HISTOGRAM_ID) HISTOGRAM_COUNT };

#undef METRICS_COUNTER_ID
#undef METRICS_STATUS_ID
#undef METRICS_GAUGE_ID
#undef METRICS_HISTOGRAM_ID

/* Any thread may call any function below at any time, without setup. A thread counts on its own
 * cache lines, in a few ns, and its counts outlive it. */

void metrics_count(enum metrics_counter counter);
void metrics_add(enum metrics_counter counter, uint64_t n);

/* Counts one HTTP answer. */
void metrics_count_status(unsigned status);

/* Adds one observation: ns for a histogram of seconds, a number of orders for
 * HISTOGRAM_BATCH_ORDERS. */
void metrics_observe(enum metrics_histogram histogram, uint64_t value);

/* Adds `times` observations of one value. */
void metrics_observe_times(enum metrics_histogram histogram, uint64_t value, uint64_t times);

/* Sets the gauge's one value, for the whole process. */
void metrics_gauge_set(enum metrics_gauge gauge, int64_t value);

/* The counter's sum over all threads, which never falls. */
uint64_t metrics_read(enum metrics_counter counter);

enum { METRICS_BUCKETS_MAX = 20 };

/* A histogram's observations, each counted in one bucket. */
struct metrics_reading {
    const uint64_t *bounds; /* upper bounds, as observed; constant */
    size_t bound_count;     /* there is one more bucket, for +Inf */
    uint64_t buckets[METRICS_BUCKETS_MAX];
    uint64_t count, sum; /* `count` is the sum of the buckets */
};

/* Reads the histogram over all threads. None of the numbers ever falls. */
void metrics_read_histogram(enum metrics_histogram histogram, struct metrics_reading *reading_out);

/* ---- the page ---- */

/* Writes the Prometheus text (format 0.0.4: METRICS_CONTENT_TYPE). */
void metrics_print(FILE *page);

#define METRICS_CONTENT_TYPE "text/plain; version=0.0.4; charset=utf-8"

/* Writes the HELP and TYPE lines above a family's first series. */
void metrics_print_head(FILE *page, const char *name, const char *type, const char *help);

/* Writes a label's value in quotes; escapes a backslash, a quote and a line feed. */
void metrics_print_label(FILE *page, const char *value);

#endif

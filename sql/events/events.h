/* What happens to orders and sales, as a feed of events in the ledger.
 *
 *   a transaction that changes orders ─► one row of event_batch, written in that transaction
 *   the publisher ─► gives the rows that have none a position each, and so the feed an order
 *   readers ─► read from a position on
 *
 * why_no_cursor_on_ids: a row's id is taken when it is written, and the row is seen when its
 * transaction is committed. So a row may turn up behind others with greater ids, and a reader who
 * remembers the greatest id passes it over. The publisher asks for the rows without a position
 * instead, whatever their ids, and only positions are read on from.
 *
 * why_order_of_ids: rows that are seen together get their positions in the order of their ids.
 * Whoever changes an order holds its row from before it writes its own row of event_batch, so two
 * changes of one order have ids in their order, and whoever sees the second sees the first. */
#ifndef SQL_EVENTS_H
#define SQL_EVENTS_H

#include "sql/ledger/ledger.h"
#include "sql/payments/payments.h"

/* ---- one event ---- */

/* X(id, letter in a batch, name) */
#define LEDGER_EVENTS(X)                                                                           \
    X(ACCEPTED, 'a', "order.accepted")                                                             \
    X(PAID, 'p', "order.paid")                                                                     \
    X(CANCELLED, 'c', "order.cancelled")                                                           \
    X(EXPIRED, 'x', "order.expired")                                                               \
    X(RETAKEN, 't', "order.retaken")                                                               \
    X(REFUNDED, 'r', "order.refunded")                                                             \
    X(UNPAID, 'u', "order.unpaid")                                                                 \
    X(CHANGED, 'k', "order.changed")                                                               \
    X(REFUND_DUE, 'd', "payment.refund_due")                                                       \
    X(SOLD_OUT, 'o', "sale.sold_out")                                                              \
    X(AVAILABLE, 'v', "sale.available")                                                            \
    X(SALE_CHANGED, 's', "sale.changed")

#define LEDGER_EVENT_ID(id, letter, name) LEDGER_EVENT_##id,
enum ledger_event_type { LEDGER_EVENTS(LEDGER_EVENT_ID) LEDGER_EVENT_TYPES };
#undef LEDGER_EVENT_ID

/* The type's name, and the type of that name; LEDGER_EVENT_TYPES: there is none. */
const char *ledger_event_name(enum ledger_event_type type);
enum ledger_event_type ledger_event_type_of(const char *name);

/* True for an event of an order, or of a payment of an order. */
static inline bool ledger_event_of_order(enum ledger_event_type type)
{
    return type < LEDGER_EVENT_SOLD_OUT;
}

struct ledger_event {
    enum ledger_event_type type;
    char sku[IDENTIFIER_SIZE];
    uint32_t round; /* of a sale's event: 0 when the sale is retired */
    /* Of an order, as the change has left it. */
    uint64_t order_id;
    uint32_t version; /* 1: accepted; each change adds one. 0: of a payment that changes no order */
    uint32_t qty;
    int64_t expires_ms; /* UTC, since 1970; 0: never */
    char user_id[USER_ID_SIZE];
    char payment_ref[PAYMENT_REF_SIZE]; /* "": none, or a payment without a name */
    /* Of a sale, as it was when the event was made. */
    uint32_t total, left;
    uint32_t settings_version;
    bool paused;
};

/* ---- batches ---- */

enum {
    LEDGER_EVENTS_BATCHES_MAX = 256, /* batches that one call reads or places */
    LEDGER_EVENTS_MAX = 1024,        /* events of a batch; a call reads at least this many */
};

/* The events of one transaction. */
struct ledger_event_batch {
    uint64_t id;
    uint64_t position; /* of its first event, counted from 1; the others follow */
    uint32_t events;
    int64_t written_ms; /* UTC, since 1970, by the ledger's clock */
    const char *body;   /* their lines, valid during the visit only */
    size_t length;
};

/* Reads the next event of a batch: `at` begins at its body, NULL ends it. `event` is all zeros at
 * first, and the one before from then on, from which lines differ. False at the end, or at a line
 * that makes no sense, which no version of the service has written. */
bool ledger_event_next(const struct ledger_event_batch *batch, const char **at,
                       struct ledger_event *event);

/* Must not use the ledger. */
typedef void ledger_event_visit(const struct ledger_event_batch *batch, void *context);

/* ---- the publisher ---- */

/* Turns the writing of batches on or off; off at first. The ledger's thread. */
void ledger_events_write(struct ledger *ledger, bool on);

/* Where the feed begins and ends. */
struct ledger_event_bounds {
    uint64_t oldest;    /* position of the oldest event kept, or next */
    uint64_t next;      /* position of the next event to be published */
    int64_t before_ms;  /* when the batch in front of `oldest` was written; 0: not known */
    int64_t last_ms;    /* when the batch in front of `next` was written, likewise */
    int64_t now_ms;     /* by the ledger's clock */
    int64_t waiting_ms; /* when the oldest unpublished batch was written; 0: there is none */
};

/* LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_events_bounds(struct ledger *ledger,
                                        struct ledger_event_bounds *bounds_out);

/* Visits up to LEDGER_EVENTS_BATCHES_MAX batches that have no position, in the order of their ids;
 * they have no bodies here. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_events_pending(struct ledger *ledger, ledger_event_visit *visit,
                                         void *context);

/* What was last published of a sale. */
struct ledger_event_sale {
    char sku[IDENTIFIER_SIZE];
    uint32_t round; /* 0: nothing was, or it was retired */
    uint32_t settings_version;
    bool sold_out;
};

/* Fills in `count` <= LEDGER_STOCK_SKUS_MAX sales by their sku. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_event_sales(struct ledger *ledger, struct ledger_event_sale *sales,
                                      size_t count);

/* Lists up to `max` sales that were retired since they were published; all but `sku` is 0.
 * LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_event_sales_retired(struct ledger *ledger, size_t max,
                                              struct ledger_event_sale *sales_out,
                                              size_t *count_out);

/* Everything that one step publishes. */
struct ledger_placing {
    uint64_t next; /* the feed's next position, as ledger_events_bounds has told it */
    /* Batches to be given positions from `next` on, in this order. */
    const struct ledger_event_batch *batches;
    size_t batch_count;
    /* Events of sales, which follow in a batch of their own, and what is noted of these sales. */
    const struct ledger_event *sale_events;
    size_t sale_event_count;
    const struct ledger_event_sale *sales;
    size_t sale_count;
};

/* Publishes it, one event at least, in one transaction. LEDGER_NO: nothing is done, because the
 * feed's next position is another one, or a batch has a position or another number of events.
 * LEDGER_UNKNOWN: ask for the bounds again. */
enum ledger_result ledger_events_place(struct ledger *ledger, const struct ledger_placing *placing);

/* Deletes up to `batches` of the oldest batches that were written more than `hours` ago.
 * `deleted_out` counts them. */
enum ledger_result ledger_events_purge(struct ledger *ledger, unsigned hours, unsigned batches,
                                       uint32_t *deleted_out);

/* ---- readers ---- */

/* Visits the batches from the one with the event at `position` on, in the order of their positions,
 * until `events` events or LEDGER_EVENTS_BATCHES_MAX batches are read. They are committed, perhaps
 * not on disk yet (ledger_confirm). LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_events_read(struct ledger *ledger, uint64_t position, uint32_t events,
                                      ledger_event_visit *visit, void *context);

#endif

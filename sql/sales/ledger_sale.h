/* Sales in the ledger: found by sku, or listed. */
#ifndef SQL_LEDGER_SALE_H
#define SQL_LEDGER_SALE_H

#include "sql/ledger.h"

/* What may be changed while a sale runs. Each change, and each restock, increments the version in
 * the sale and in all of its segments at once, so that a stock update decided by older settings is
 * refused. */
struct ledger_settings {
    int64_t starts_ms; /* UTC, since 1970; 0: open from the beginning */
    int64_t ends_ms;   /* the first moment that is too late; 0: open until sold out */
    uint32_t version;
    uint32_t per_user_limit; /* units that one user may buy in a round; 0: no limit */
    uint32_t pay_within_s;   /* after which an unpaid order expires; 0: never */
    bool paused;
    bool counting; /* the sale is closed while its users' units are counted for a new limit */
};

struct ledger_sale {
    char sku[IDENTIFIER_SIZE];
    uint32_t round;
    uint32_t total;
    uint32_t segments;
    uint32_t sold; /* units in accepted orders of this round */
    struct ledger_settings settings;
};

/* LEDGER_NO: no such sale. LEDGER_DAMAGED: its row makes no sense. */
enum ledger_result ledger_sale_find(struct ledger *ledger, const char *sku,
                                    struct ledger_sale *sale_out);

/* Finds many sales, `count` <= LEDGER_ORDERS_MAX, in one query: calls `visit`, which must not use
 * the ledger, with each sale that exists. LEDGER_OK, LEDGER_FAILED, or LEDGER_DAMAGED: a sale was
 * left out, as its row makes no sense. */
enum ledger_result ledger_sales_find(struct ledger *ledger, const char *const *skus, size_t count,
                                     void (*visit)(const struct ledger_sale *sale, void *context),
                                     void *context);

/* The first `max` sales whose skus come after `after` ("" for the first), in order of their
 * skus; those whose rows make no sense are left out, and noted in ledger_fault. LEDGER_OK,
 * LEDGER_FAILED, or LEDGER_DAMAGED: there are too many of those. */
enum ledger_result ledger_sale_list(struct ledger *ledger, const char *after, size_t max,
                                    struct ledger_sale *sales_out, size_t *count_out);

/* Calls `visit` with every sale in order of their skus, read page by page. On anything but
 * LEDGER_OK some sales may be missing. */
enum ledger_result ledger_sales_each(struct ledger *ledger,
                                     void (*visit)(const struct ledger_sale *sale, void *context),
                                     void *context);

/* ---- for sql/ only ---- */

/* A DATETIME as ms since 1970, whatever the connection's time zone. */
#define LEDGER_MS_OF(column) "TIMESTAMPDIFF(MICROSECOND,'1970-01-01'," column ")DIV 1000"

/* The columns of a SELECT from `sale`, with the expression that counts the units sold. */
#define LEDGER_SALE_COLUMNS(sold)                                                                  \
    "sale.sku,sale.round,total,segments," sold                                                     \
    ",sale.settings_version," LEDGER_MS_OF("starts_at") "," LEDGER_MS_OF(                          \
        "ends_at") ",per_user_limit,pay_within_s,paused,"                                          \
                   "EXISTS(SELECT 1 FROM quota_count c WHERE c.sku=sale.sku AND c.round=sale.round)"

enum { LEDGER_SALE_WIDTH = 12 }; /* columns */

/* Reads one row of these columns. False when it makes no sense, which is noted then. */
bool ledger_sale_read(struct ledger *ledger, struct ledger_sale *sale, char **row);

#endif

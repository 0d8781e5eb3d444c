/* Many orders at a time, page by page: all of them in order of their ids, or those of one user. */
#ifndef SQL_LEDGER_LIST_H
#define SQL_LEDGER_LIST_H

#include "sql/ledger.h"
#include "sql/ledger_time.h"

enum {
    LEDGER_SCAN_MAX = 100000,  /* rows that one call reads to find the wanted ones */
    LEDGER_USER_IDS_MAX = 512, /* orders of a user that one call reads */
};

struct ledger_listed {
    uint64_t order_id;
    char sku[IDENTIFIER_SIZE];
    char user_id[USER_ID_SIZE];
    char status[16];
    char created_at[LEDGER_TIME_SIZE];
    char expires_at[LEDGER_TIME_SIZE]; /* "": never */
    uint32_t round;
    uint32_t qty;
    uint32_t segment; /* the first one, if several filled the order */
};

/* Which orders a listing wants; "" stands for any. */
struct ledger_filter {
    char sku[IDENTIFIER_SIZE];
    char user_id[USER_ID_SIZE];
    char status[16]; /* as ledger_status_name writes it */
};

/* Lists up to `max` orders of all users with ids above `after`, sorted by id. It reads along the
 * primary key, at most LEDGER_SCAN_MAX rows, so it may find fewer although there are more.
 * `next_out` is the id to go on after; 0: there are no more. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_orders_scan(struct ledger *ledger, const struct ledger_filter *filter,
                                      uint64_t after, size_t max, struct ledger_listed *orders_out,
                                      size_t *count_out, uint64_t *next_out);

/* As ledger_orders_scan, for the orders of filter->user_id, until ledger_purge has deleted their
 * keys. One call reads the user's keys and at most LEDGER_USER_IDS_MAX of the orders, so with a
 * filter it may find fewer although there are more. */
enum ledger_result ledger_user_orders(struct ledger *ledger, const struct ledger_filter *filter,
                                      uint64_t after, size_t max, struct ledger_listed *orders_out,
                                      size_t *count_out, uint64_t *next_out);

#endif

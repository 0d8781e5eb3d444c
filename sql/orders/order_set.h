/* Private to sql/: orders that a statement asks for by their ids, and their rows as records. */
#ifndef SQL_ORDER_SET_H
#define SQL_ORDER_SET_H

#include "sql/orders/orders.h"

struct sql_text;

/* The records that a caller wants to have filled in, by id; an id may come more than once. */
struct order_set {
    struct ledger_record *const *records; /* the caller's */
    size_t count;
    bool asks_payable; /* false to begin with; else `payable` and `round_over` are read */
    struct order_set_entry {
        uint64_t order_id;
        size_t place; /* in `records` */
    } entries[LEDGER_ORDERS_MAX];
};

/* Sorts the orders that the records name, up to LEDGER_ORDERS_MAX of them. */
void order_set_init(struct order_set *set, struct ledger_record *const *records, size_t count);

/* Appends the ids, each once and ascending, in parentheses. */
void order_set_ids(const struct order_set *set, struct sql_text *sql);

/* Appends a SELECT of the orders to ledger->sql, runs all of it by `query` (ledger_query or
 * ledger_read), and fills in the records, all of those with the same id alike. */
enum db_result order_set_fetch(const struct order_set *set, struct ledger *ledger,
                               enum db_result (*query)(struct ledger *ledger));

/* The place of the first record with that id among `records`; `count` when there is none. */
size_t order_set_find(const struct order_set *set, uint64_t order_id);

#endif

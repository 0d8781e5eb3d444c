/* Private to sql/: the orders that a statement names by their ids, and their rows as records. */
#ifndef SQL_ORDER_SET_H
#define SQL_ORDER_SET_H

#include "sql/orders/orders.h"

/* The records to fill in, sorted by id; an id may come more than once. */
struct order_set {
    struct ledger_record *const *records; /* the caller's */
    size_t count;
    bool asks_payable; /* reads `payable` and `round_over`, too; false by default */
    struct order_set_entry {
        uint64_t order_id;
        size_t place; /* in `records` */
    } entries[LEDGER_ORDERS_MAX];
};

/* Sorts the orders that the records name, up to LEDGER_ORDERS_MAX of them. */
void order_set_init(struct order_set *set, struct ledger_record *const *records, size_t count);

/* True when the entry before has the same id. */
bool order_set_repeats(const struct order_set *set, size_t entry);

/* Returns the first entry with the id of this one. */
size_t order_set_first(const struct order_set *set, size_t entry);

/* Appends the ids, each once and ascending, in parentheses. */
void order_set_ids(const struct order_set *set, struct sql_text *sql);

/* Returns the first entry with that id; `count`: not found. */
size_t order_set_find(const struct order_set *set, uint64_t order_id);

/* Appends a SELECT of the orders to ledger->sql, runs all of it by `query` (ledger_query or
 * ledger_read), and fills in the records, equal ids alike. */
enum db_result order_set_fetch(const struct order_set *set, struct ledger *ledger,
                               enum db_result (*query)(struct ledger *ledger));

#endif

/* Private to sql/: which orders a user has, without an index that every order would pay for. */
#ifndef SQL_ORDER_INDEX_H
#define SQL_ORDER_INDEX_H

#include "sql/ledger_list.h"
#include "sql/ledger_private.h"

/* The smallest order ids above `after`, in order, each once. Zero but for `after` to begin with. */
struct order_ids {
    uint64_t after;
    uint64_t ids[LEDGER_USER_IDS_MAX];
    size_t count;
    bool more; /* greater ones were left out */
};

/* Notes in the commit's text that its orders have to be filed. */
void order_index_text(struct sql_text *sql, const struct ledger_order *orders, size_t count);

/* Collects ids of the user's orders; other users' may be among them. False: the ledger failed. */
bool order_index_find(struct ledger *ledger, const char *user_id, struct order_ids *ids);

#endif

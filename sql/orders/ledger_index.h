/* Which orders a user has, indexed in the background instead of by every order. */
#ifndef SQL_LEDGER_INDEX_H
#define SQL_LEDGER_INDEX_H

#include "sql/orders/ledger_commit.h"
#include "sql/orders/ledger_list.h"

enum {
    LEDGER_INDEX_BATCHES = 512, /* commits that are worth a run of the indexer */
    LEDGER_INDEX_BUCKETS = 1024,
};

/* Indexes the orders of the oldest commits by user, when `batches_min` commits wait for it; until
 * then ledger_user_orders reads the orders of these commits one by one. Any process may call it at
 * any time: commits that another process is indexing are skipped. LEDGER_OK: it indexed
 * `orders_out` orders, and there may be more; LEDGER_NO: there is nothing to do. */
enum ledger_result ledger_index_orders(struct ledger *ledger, size_t batches_min,
                                       size_t *orders_out);

/* Finds the smallest order id of the commits that wait to be indexed, whoever is indexing them; 0
 * when none waits. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_index_waiting(struct ledger *ledger, uint64_t *order_id_out);

/* Merges small rows of a bucket of the index, 0..LEDGER_INDEX_BUCKETS - 1, into one. Any process,
 * at any time. LEDGER_OK: there may be more; LEDGER_NO: there is nothing to do. */
enum ledger_result ledger_index_merge(struct ledger *ledger, unsigned bucket);

/* ---- for sql/ only ---- */

struct sql_text;

/* The smallest order ids above `after`, in order, each once. Zero but for `after` to begin with. */
struct ledger_order_ids {
    uint64_t after;
    uint64_t end; /* no ids above it were looked for; UINT64_MAX: all were */
    uint64_t ids[LEDGER_USER_IDS_MAX];
    size_t count;
    bool more; /* greater ids were left out */
};

/* Appends the statement that notes the orders of a commit as not indexed yet. */
void ledger_index_text(struct sql_text *sql, const struct ledger_order *orders, size_t count);

/* Collects ids of the user's orders; other users' may be among them. False: the ledger failed. */
bool ledger_index_find(struct ledger *ledger, const char *user_id, struct ledger_order_ids *ids);

#endif

/* Which shard a ledger is, and on which shard each sku is.
 *
 * Several ledgers share the sales: each sku is on one of them, its shard, with its orders, keys,
 * quotas and rounds. The ledger of shard 0 also holds the directory of skus. */
#ifndef SQL_LEDGER_SHARD_H
#define SQL_LEDGER_SHARD_H

#include "sql/ledger.h"

/* Compares the number that the ledger has with the one that the caller takes it for; a ledger that
 * has none is given it, unless it has sales: then it is shard 0. LEDGER_OK: it has this number.
 * LEDGER_NO: `found_out` is its number. LEDGER_FAILED: not known. */
enum ledger_result ledger_shard_claim(struct ledger *ledger, unsigned number, unsigned *found_out);

/* Says on which shard a sku is, for whoever creates a sale. `ledger` is that of shard 0. A sku that
 * the directory has is where that says; one of which this ledger has, or had, a sale is on shard 0;
 * any other goes to `wanted`, and the directory says so from now on. Of several callers at a time
 * one decides, and all get the same answer, which a crash of the server cannot undo. LEDGER_OK, or
 * LEDGER_FAILED: asking again is harmless. */
enum ledger_result ledger_sku_claim(struct ledger *ledger, const char *sku, unsigned wanted,
                                    unsigned *shard_out);

/* Where the directory says that a sku is. */
struct ledger_sku_place {
    const char *sku;
    int shard; /* out; -1: the directory does not have the sku, which is on shard 0 or nowhere */
};

/* Looks many skus up, `count` <= LEDGER_ORDERS_MAX, in one query. `ledger` is that of shard 0.
 * LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_skus_look_up(struct ledger *ledger, struct ledger_sku_place *places,
                                       size_t count);

/* Whether the directory names a shard from `count` on, which a list of `count` ledgers lacks:
 * somebody else's list is longer. `ledger` is that of shard 0. LEDGER_OK: `shard_out` is one.
 * LEDGER_NO: it names none. LEDGER_FAILED: not known. */
enum ledger_result ledger_shard_beyond(struct ledger *ledger, unsigned count, unsigned *shard_out);

/* The shard out of `count` that a new sku goes to unless somebody names another. */
unsigned ledger_sku_default(const char *sku, unsigned count);

#endif

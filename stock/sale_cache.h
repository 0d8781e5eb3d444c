/* The sales that this process knows: a cache of the ledger, which remembers the units left. */
#ifndef STOCK_SALE_CACHE_H
#define STOCK_SALE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "sql/sales/sales.h"

enum {
    SALES_MAX = 10000,                        /* per process; retired ones do not count */
    SALES_ALL_MAX = 24000,                    /* with retired sales that a thread may still use */
    SALE_MESSAGE_SIZE = IDENTIFIER_SIZE + 16, /* of a message on STOCK_CHANNEL */
};

_Static_assert((int)SALE_MESSAGE_SIZE >= (int)IDENTIFIER_SIZE + sizeof "!4294967295" - 1,
               "a message has room for a sku and a round");

struct sale;
struct sale_cache;

/* A sale's numbers as one consistent picture. */
struct sale_snapshot {
    uint32_t round;
    uint32_t total;
    uint32_t segments;
    uint32_t epoch; /* grows with every sale_invalidate; see sale_remember_left */
    struct ledger_settings settings;
};

/* One cache per process, shared by all of its threads. Closing it frees its sales. */
struct sale_cache *sale_cache_open(void);
void sale_cache_close(struct sale_cache **cache);

/* A thread finds, puts and uses sales between these two calls, and keeps no sale beyond. A sale
 * that is retired meanwhile stays valid until then: the thread may go on with it, and the ledger
 * refuses what it does. Sections may nest and should end soon, because they keep retired sales in
 * memory. sale_cache_leave takes the result of sale_cache_enter. Any thread; takes no lock. */
unsigned sale_cache_enter(struct sale_cache *cache);
void sale_cache_leave(struct sale_cache *cache, unsigned section);

/* Finds the sale of a sku. NULL when this process has not read it from the ledger, or knows that it
 * is retired. Any thread; takes no lock. */
struct sale *sale_cache_find(const struct sale_cache *cache, const char *sku);

/* Notes a sale's row from the ledger. A later round replaces the cached one; an earlier round or
 * older settings are ignored. An old row may bring a retired sale back: the ledger refuses its
 * first order, and then it is retired again. NULL when the cache is full. Any thread. */
struct sale *sale_cache_put(struct sale_cache *cache, const struct ledger_sale *row);

/* Notes that a sale was retired in this round, unless it has a later one already. Any thread. */
void sale_cache_retire(struct sale_cache *cache, const char *sku, uint32_t round);

/* Takes a message of STOCK_CHANNEL: the sku of a changed sale, which is invalidated, or the sku of
 * a retired sale, a "!" and its round. Any thread. */
void sale_cache_on_message(struct sale_cache *cache, const char *message);

/* Invalidates every sale, as when messages of changes may have been missed. Any thread. */
void sale_cache_invalidate(struct sale_cache *cache);

/* Until `until_ns` (monotonic) other transactions may hold rows of the ledger for long, so workers
 * look at rows before changing them; sale_cache_held_expected is true until then. Any thread. */
void sale_cache_expect_held(struct sale_cache *cache, int64_t until_ns);
bool sale_cache_held_expected(const struct sale_cache *cache, int64_t now_ns);

/* True when there is no room for another sale: there are SALES_MAX already, or SALES_ALL_MAX with
 * the retired ones. Any thread. */
bool sale_cache_full(struct sale_cache *cache);

const char *sale_sku(const struct sale *sale);

struct sale_snapshot sale_snapshot(struct sale *sale);

/* The units that a segment had when this process last saw it. The hint says where to look first and
 * never refuses an order. Any thread. */
uint32_t sale_hint(const struct sale *sale, uint32_t segment);
void sale_hint_set(struct sale *sale, uint32_t segment, uint32_t units);

/* Marks a segment that has `units` in the ledger at `fence`, more than Redis reported. The greatest
 * fence stays. Taking the mark away returns its fence and sets `units_out`, or returns 0 without a
 * mark. Any thread. */
void sale_suspect(struct sale *sale, uint32_t segment, uint64_t fence, uint32_t units);
uint64_t sale_suspect_take(struct sale *sale, uint32_t segment, uint32_t *units_out);

/* While there is no mark, lets only one of `fence` at least be the next one; lesser ones are
 * dropped. sale_suspect_least returns that fence, 0: any. It is called before the ledger is asked,
 * and a mark then gets the greater one of it and the ledger's: so an answer of the ledger from
 * before `fence` was seen does not count for it. Any thread. */
void sale_suspect_later(struct sale *sale, uint32_t segment, uint64_t fence);
uint64_t sale_suspect_least(const struct sale *sale, uint32_t segment);

/* Remembers until `until_ns` (monotonic) that the ledger has `units` left, unless units may have
 * come back since `epoch` was read. */
void sale_remember_left(struct sale *sale, uint32_t epoch, uint32_t units, int64_t until_ns);

/* Confirms the snapshot: the ledger, asked at `asked_ns` (monotonic) after `epoch` was read, still
 * had it. Its settings may refuse orders for `valid_ms` from then on, unless the sale was
 * invalidated meanwhile. */
void sale_confirm(struct sale *sale, uint32_t epoch, int64_t asked_ns, int valid_ms);

/* True while the snapshot is confirmed, and not about to expire. Any thread; takes no lock. */
bool sale_confirmed(const struct sale *sale, int64_t now_ns);

/* Notes that the ledger no longer accepts orders that were let in before the sale's end at
 * `ends_ms`; sale_end_fenced tells whether that was noted for this end. Any thread. */
void sale_fence_end(struct sale *sale, int64_t ends_ms);
bool sale_end_fenced(const struct sale *sale, int64_t ends_ms);

/* Checks the cached window: true, with the sale's settings, when the sale has a window, is paused
 * or counting, and its confirmed settings may refuse orders. When they are about to expire, one
 * caller per 50 ms gets false, so that its order asks the ledger again. Any thread; takes no lock
 * for a sale without any of these. */
bool sale_window_cached(struct sale *sale, int64_t now_ns, struct ledger_settings *settings_out);

/* Ends the memory and the confirmation: units or settings may have changed. Any thread. */
void sale_invalidate(struct sale *sale);

/* True while the ledger is remembered to have fewer than `qty` units left. When that memory
 * expires, one caller per 50 ms gets false, so that its order asks the ledger again, while the
 * other orders are refused for up to 1 s more. Any thread; takes no lock. */
bool sale_known_short(struct sale *sale, uint32_t qty, int64_t now_ns);

#endif

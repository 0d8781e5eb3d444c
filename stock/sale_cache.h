/* What this process knows of each sale: a cache of the ledger, and the memory of what is left. */
#ifndef STOCK_SALE_CACHE_H
#define STOCK_SALE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#include "sql/ledger_sale.h"

enum { SALES_MAX = 10000 };

struct sale;
struct sale_cache;

/* A sale's numbers as one consistent picture. */
struct sale_snapshot {
    uint32_t round;
    uint32_t total;
    uint32_t segments;
    uint32_t epoch; /* grows whenever units may have come back; see sale_remember_left */
    struct ledger_settings settings;
};

struct sale_cache *sale_cache_open(void);
void sale_cache_close(struct sale_cache **cache);

/* The sale of a sku, or NULL when this process has not seen it. A sale stays valid until
 * sale_cache_close. Any thread; takes no lock. */
struct sale *sale_cache_find(const struct sale_cache *cache, const char *sku);

/* Notes what the ledger says of a sale. A new round forgets what is known of the old one; an older
 * round than the one known, or older settings, are ignored. NULL when there are SALES_MAX sales
 * already. Any thread. */
struct sale *sale_cache_put(struct sale_cache *cache, const struct ledger_sale *sale);

/* Forgets what is left of every sale, as after a time without news. Any thread. */
void sale_cache_invalidate(struct sale_cache *cache);

/* How many sales there are. Any thread. */
size_t sale_cache_count(struct sale_cache *cache);

const char *sale_sku(const struct sale *sale);
struct sale_snapshot sale_snapshot(struct sale *sale);

/* How many units a segment had when last seen: where to look first, never a reason to refuse. */
uint32_t sale_hint(const struct sale *sale, uint32_t segment);
void sale_hint_set(struct sale *sale, uint32_t segment, uint32_t units);

/* Marks a segment of which the ledger knows units that Redis does not: recover it when next held.
 * Taking the mark away tells whether it was there. */
void sale_suspect(struct sale *sale, uint32_t segment);
bool sale_suspect_take(struct sale *sale, uint32_t segment);

/* Remembers until `until_ns` (monotonic) that the ledger has `units` left, unless units may have
 * come back since `epoch` was read. */
void sale_remember_left(struct sale *sale, uint32_t epoch, uint32_t units, int64_t until_ns);

/* Notes that the ledger, asked at `asked_ns` (monotonic) when `epoch` was read, said what the snapshot
 * says: unless there was news of the sale since, orders may be refused by its settings for `valid_ms`
 * from then on. */
void sale_confirm(struct sale *sale, uint32_t epoch, int64_t asked_ns, int valid_ms);

/* True when that time has not nearly passed. Any thread; takes no lock. */
bool sale_confirmed(const struct sale *sale, int64_t now_ns);

/* Gives the settings of a sale that is not simply open, if orders may be refused by them. When that
 * time has nearly passed, one caller per 50 ms gets false, to find out anew. Any thread; takes no
 * lock for a sale without window and pause. */
bool sale_window_cached(struct sale *sale, int64_t now_ns, struct ledger_settings *settings_out);

/* Ends what is remembered and confirmed: units may have come back, or settings have changed. */
void sale_invalidate(struct sale *sale);

/* True when it is known that fewer than `qty` units are left. When the memory runs out, one caller
 * per 50 ms gets false, to find out anew, while the others go on being refused for up to 1 s. Any
 * thread; takes no lock. */
bool sale_known_short(struct sale *sale, uint32_t qty, int64_t now_ns);

#endif

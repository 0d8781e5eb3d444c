/* What this process knows of each sale: a cache of the ledger, and the memory of what is left. */
#include "stock/sale_cache.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/identifier.h"

enum { SLOTS = 32768 }; /* a power of two */

static_assert(SALES_EVER_MAX <= SLOTS / 4 * 3, "look-ups end soon at an empty slot");

/* Once a remembered shortage or a confirmation expires, one order per PROBE_NS asks the ledger
 * anew. The others are refused meanwhile, or all of a sold-out sale's buyers would ask together;
 * but for no longer than STALE_NS, in case the probing order is lost. */
static const int64_t PROBE_NS = 50 * CLOCK_NS_PER_MS;
static const int64_t STALE_NS = CLOCK_NS_PER_S;

struct sale {
    char sku[IDENTIFIER_SIZE];
    unsigned shard;
    pthread_mutex_t mutex; /* guards the snapshot, and the writing of what is left */
    struct sale_snapshot snapshot;
    _Atomic bool retired; /* changes under the cache's mutex */
    _Atomic uint32_t left_units;
    _Atomic int64_t left_until_ns;   /* 0: nothing is remembered */
    _Atomic int64_t probe_ns;        /* when the next order asks anew */
    _Atomic bool has_window;         /* the settings have a window, or have closed the sale */
    _Atomic int64_t window_until_ns; /* until when the settings are confirmed; 0: not at all */
    _Atomic int64_t window_probe_ns; /* when the next order asks anew */
    _Atomic int64_t fenced_ends_ms;  /* see sale_fence_end */
    _Atomic uint32_t hints[LEDGER_SEGMENTS_MAX];
    _Atomic uint64_t suspects[LEDGER_SEGMENTS_MAX]; /* a fence, or 0 */
};

struct sale_cache {
    pthread_mutex_t
        mutex;    /* of writers; readers take none, as a slot never changes once it is set */
    size_t count; /* of the sales that are not retired */
    size_t ever;  /* of all slots that are set */
    _Atomic(struct sale *) slots[SLOTS];
};

struct sale_cache *sale_cache_open(void)
{
    struct sale_cache *cache = calloc(1, sizeof *cache);
    if (!cache)
        abort();
    pthread_mutex_init(&cache->mutex, NULL);
    return cache;
}

void sale_cache_close(struct sale_cache **cache)
{
    for (size_t i = 0; *cache && i < SLOTS; i++)
        free(atomic_load(&(*cache)->slots[i]));
    free(*cache);
    *cache = NULL;
}

/* The slot where the sku is, or the empty one where it would be. */
static size_t slot_find(const struct sale_cache *cache, const char *sku, struct sale **sale_out)
{
    for (size_t slot = hash_slot(sku, SLOTS);; slot = (slot + 1) % SLOTS) {
        *sale_out = atomic_load_explicit(&cache->slots[slot], memory_order_acquire);
        if (!*sale_out || strcmp((*sale_out)->sku, sku) == 0)
            return slot;
    }
}

struct sale *sale_cache_find(const struct sale_cache *cache, const char *sku)
{
    struct sale *sale = NULL;
    slot_find(cache, sku, &sale);
    return sale && !atomic_load_explicit(&sale->retired, memory_order_relaxed) ? sale : NULL;
}

static struct sale *sale_new(const char *sku, unsigned shard)
{
    struct sale *sale = calloc(1, sizeof *sale);
    if (!sale)
        abort();
    assert(strlen(sku) < IDENTIFIER_SIZE);
    strcpy(sale->sku, sku);
    sale->shard = shard;
    pthread_mutex_init(&sale->mutex, NULL);
    return sale;
}

/* The epoch tells a thread that is asking the ledger just now that its answer may be out of
 * date. */
static void invalidate_locked(struct sale *sale)
{
    sale->snapshot.epoch++;
    atomic_store(&sale->left_until_ns, 0);
    atomic_store(&sale->window_until_ns, 0);
}

static void begin_round(struct sale *sale, const struct ledger_sale *row)
{
    sale->snapshot = (struct sale_snapshot){
        .round = row->round,
        .total = row->total,
        .segments = row->segments,
        .epoch = sale->snapshot.epoch,
        .settings = row->settings,
    };
    /* Nothing was seen of the new round's segments yet: as many as an even split gives each. */
    uint32_t share = (row->total + row->segments - 1) / row->segments;
    for (uint32_t i = 0; i < row->segments; i++)
        sale_hint_set(sale, i, share);
    invalidate_locked(sale);
}

/* Rows arrive in any order, as several threads read them: only a later round or version counts. */
static void update(struct sale *sale, const struct ledger_sale *row)
{
    if (row->round > sale->snapshot.round)
        begin_round(sale, row);
    if (row->round == sale->snapshot.round &&
        row->settings.version > sale->snapshot.settings.version) {
        sale->snapshot.total = row->total;
        sale->snapshot.settings = row->settings;
    }
    const struct ledger_settings *settings = &sale->snapshot.settings;
    atomic_store(&sale->has_window, settings->starts_ms != 0 || settings->ends_ms != 0 ||
                                        settings->paused || settings->counting);
}

/* A sku that was retired has a sale again. A row of the round that was retired may have been read
 * before that, but it may as well have been missed by a ledger that was behind: then the ledger
 * says so once more when the sale is used. */
static bool revive(struct sale_cache *cache, struct sale *sale, const struct ledger_sale *row)
{
    if (cache->count >= SALES_MAX)
        return false;
    pthread_mutex_lock(&sale->mutex);
    bool older = row->round < sale->snapshot.round;
    if (!older) {
        update(sale, row);
        invalidate_locked(sale);
        atomic_store(&sale->retired, false);
        cache->count++;
    }
    pthread_mutex_unlock(&sale->mutex);
    return !older;
}

/* A new sale gets its numbers before it can be found: other threads divide by its segments. */
static struct sale *find_or_insert(struct sale_cache *cache, const struct ledger_sale *row,
                                   unsigned shard)
{
    struct sale *sale = NULL;
    pthread_mutex_lock(&cache->mutex);
    size_t slot = slot_find(cache, row->sku, &sale);
    bool retired = sale && atomic_load(&sale->retired);
    bool room = cache->count < SALES_MAX && cache->ever < SALES_EVER_MAX;
    if (!sale && room) {
        sale = sale_new(row->sku, shard);
        update(sale, row);
        cache->count++;
        cache->ever++;
        atomic_store_explicit(&cache->slots[slot], sale, memory_order_release);
    } else if ((sale && sale->shard != shard) || (retired && !revive(cache, sale, row))) {
        sale = NULL;
    }
    pthread_mutex_unlock(&cache->mutex);
    return sale;
}

struct sale *sale_cache_put(struct sale_cache *cache, const struct ledger_sale *row, unsigned shard)
{
    assert(row->round > 0 && row->segments > 0 && row->segments <= LEDGER_SEGMENTS_MAX);
    struct sale *sale = find_or_insert(cache, row, shard);
    if (!sale)
        return NULL;
    pthread_mutex_lock(&sale->mutex);
    update(sale, row);
    pthread_mutex_unlock(&sale->mutex);
    return sale;
}

void sale_cache_invalidate(struct sale_cache *cache)
{
    for (size_t i = 0; i < SLOTS; i++) {
        struct sale *sale = atomic_load(&cache->slots[i]);
        if (sale)
            sale_invalidate(sale);
    }
}

void sale_cache_retire(struct sale_cache *cache, const char *sku, uint32_t round)
{
    struct sale *sale = NULL;
    pthread_mutex_lock(&cache->mutex);
    slot_find(cache, sku, &sale);
    if (sale && !atomic_load(&sale->retired)) {
        pthread_mutex_lock(&sale->mutex);
        if (sale->snapshot.round <= round) {
            atomic_store(&sale->retired, true);
            invalidate_locked(sale);
            cache->count--;
        }
        pthread_mutex_unlock(&sale->mutex);
    }
    pthread_mutex_unlock(&cache->mutex);
}

void sale_cache_hear(struct sale_cache *cache, const char *message)
{
    char sku[IDENTIFIER_SIZE];
    const char *mark = strchr(message, '!'); /* which no sku has */
    size_t length = mark ? (size_t)(mark - message) : strlen(message);
    if (!identifier_copy(message, length, sku))
        return;
    struct sale *sale = sale_cache_find(cache, sku);
    if (sale)
        sale_invalidate(sale);
    if (mark)
        sale_cache_retire(cache, sku, (uint32_t)strtoul(mark + 1, NULL, 10));
}

size_t sale_cache_count(struct sale_cache *cache)
{
    pthread_mutex_lock(&cache->mutex);
    size_t count = cache->count;
    pthread_mutex_unlock(&cache->mutex);
    return count;
}

const char *sale_sku(const struct sale *sale)
{
    return sale->sku;
}

unsigned sale_shard(const struct sale *sale)
{
    return sale->shard;
}

struct sale_snapshot sale_snapshot(struct sale *sale)
{
    pthread_mutex_lock(&sale->mutex);
    struct sale_snapshot snapshot = sale->snapshot;
    pthread_mutex_unlock(&sale->mutex);
    return snapshot;
}

uint32_t sale_hint(const struct sale *sale, uint32_t segment)
{
    assert(segment < LEDGER_SEGMENTS_MAX);
    return atomic_load_explicit(&sale->hints[segment], memory_order_relaxed);
}

void sale_hint_set(struct sale *sale, uint32_t segment, uint32_t units)
{
    assert(segment < LEDGER_SEGMENTS_MAX);
    atomic_store_explicit(&sale->hints[segment], units, memory_order_relaxed);
}

void sale_suspect(struct sale *sale, uint32_t segment, uint64_t fence)
{
    assert(segment < LEDGER_SEGMENTS_MAX && fence > 0);
    uint64_t marked = atomic_load(&sale->suspects[segment]);
    while (marked < fence &&
           !atomic_compare_exchange_weak(&sale->suspects[segment], &marked, fence))
        ;
}

uint64_t sale_suspect_take(struct sale *sale, uint32_t segment)
{
    assert(segment < LEDGER_SEGMENTS_MAX);
    /* The plain read first: the mark is rare, and an exchange would make the cache line ours. */
    if (atomic_load_explicit(&sale->suspects[segment], memory_order_relaxed) == 0)
        return 0;
    return atomic_exchange(&sale->suspects[segment], 0);
}

void sale_remember_left(struct sale *sale, uint32_t epoch, uint32_t units, int64_t until_ns)
{
    pthread_mutex_lock(&sale->mutex);
    if (sale->snapshot.epoch == epoch) {
        /* left_until_ns last: a reader that sees it sees the units that belong to it. */
        atomic_store(&sale->left_units, units);
        atomic_store(&sale->probe_ns, until_ns);
        atomic_store(&sale->left_until_ns, until_ns);
    }
    pthread_mutex_unlock(&sale->mutex);
}

void sale_invalidate(struct sale *sale)
{
    pthread_mutex_lock(&sale->mutex);
    invalidate_locked(sale);
    pthread_mutex_unlock(&sale->mutex);
}

bool sale_known_short(struct sale *sale, uint32_t qty, int64_t now_ns)
{
    int64_t until_ns = atomic_load_explicit(&sale->left_until_ns, memory_order_acquire);
    if (until_ns == 0 || qty <= atomic_load_explicit(&sale->left_units, memory_order_relaxed))
        return false;
    if (now_ns < until_ns)
        return true;
    if (now_ns >= until_ns + STALE_NS)
        return false;
    int64_t probe_ns = atomic_load(&sale->probe_ns);
    bool mine = now_ns >= probe_ns &&
                atomic_compare_exchange_strong(&sale->probe_ns, &probe_ns, now_ns + PROBE_NS);
    return !mine;
}

void sale_confirm(struct sale *sale, uint32_t epoch, int64_t asked_ns, int valid_ms)
{
    int64_t until_ns = asked_ns + valid_ms * CLOCK_NS_PER_MS;
    pthread_mutex_lock(&sale->mutex);
    assert(valid_ms > 0);
    if (sale->snapshot.epoch == epoch) {
        atomic_store(&sale->window_probe_ns, until_ns - PROBE_NS);
        atomic_store(&sale->window_until_ns, until_ns);
    }
    pthread_mutex_unlock(&sale->mutex);
}

bool sale_confirmed(const struct sale *sale, int64_t now_ns)
{
    return now_ns < atomic_load(&sale->window_until_ns) - PROBE_NS;
}

void sale_fence_end(struct sale *sale, int64_t ends_ms)
{
    assert(ends_ms > 0);
    atomic_store(&sale->fenced_ends_ms, ends_ms);
}

bool sale_end_fenced(const struct sale *sale, int64_t ends_ms)
{
    return atomic_load(&sale->fenced_ends_ms) == ends_ms;
}

bool sale_window_cached(struct sale *sale, int64_t now_ns, struct ledger_settings *settings_out)
{
    if (!atomic_load_explicit(&sale->has_window, memory_order_relaxed) ||
        now_ns >= atomic_load(&sale->window_until_ns))
        return false;
    int64_t probe_ns = atomic_load(&sale->window_probe_ns);
    if (now_ns >= probe_ns &&
        atomic_compare_exchange_strong(&sale->window_probe_ns, &probe_ns, now_ns + PROBE_NS))
        return false;
    *settings_out = sale_snapshot(sale).settings;
    return true;
}

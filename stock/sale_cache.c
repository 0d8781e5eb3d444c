/* Caches the sales of the ledger that this process knows, and remembers their units left.
 *
 * why_two_counters: a retired sale is freed when no thread can use it any more. A thread counts
 * itself in one of two counters, by whether the epoch is even or odd when it enters. The epoch
 * moves on only when the other counter, of the epoch before, is zero; so after a thread has counted
 * itself, the epoch moves on once at most until it leaves. A sale is taken out of its chain in some
 * epoch; two epochs later every thread that may have come to it, also through sales that were taken
 * out before, has left. */
#include "stock/sale_cache.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/identifier.h"
#include "base/memory.h"

enum { CHAINS = 32768 };

static_assert((int)SALES_ALL_MAX < (int)CHAINS, "chains are short");
static_assert(SALES_MAX < SALES_ALL_MAX, "some may wait to be freed");

/* Once a remembered shortage or a confirmation expires, one order per PROBE_NS asks the ledger
 * again. The others are refused meanwhile, or all of a sold-out sale's buyers would ask together;
 * but for no longer than STALE_NS, in case the probing order is lost. */
#define PROBE_NS (50 * CLOCK_NS_PER_MS)
#define STALE_NS CLOCK_NS_PER_S

static_assert(PROBE_NS < STALE_NS, "the ledger is asked anew before the memory ends");

struct sale {
    char sku[IDENTIFIER_SIZE];
    pthread_mutex_t mutex; /* guards the snapshot, the suspects, and writes of the units left */
    struct sale_snapshot snapshot;
    _Atomic(struct sale *) chained; /* the next sale of its chain; under the cache's mutex */
    struct sale *next_out;          /* the next in the list of retired sales */
    unsigned out_epoch;             /* when it was taken out of its chain */
    _Atomic uint32_t left_units;
    _Atomic int64_t left_until_ns;   /* 0: nothing is remembered */
    _Atomic int64_t probe_ns;        /* when the next order asks again */
    _Atomic bool has_window;         /* the settings have a window, or have closed the sale */
    _Atomic int64_t window_until_ns; /* the settings are confirmed until then; 0: not at all */
    _Atomic int64_t window_probe_ns; /* when the next order asks again */
    _Atomic int64_t fenced_ends_ms;  /* see sale_fence_end */
    _Atomic uint32_t hints[LEDGER_SEGMENTS_MAX];
    _Atomic uint64_t suspects[LEDGER_SEGMENTS_MAX]; /* a fence, or 0; see SUSPECT_LATER */
    uint32_t suspect_units[LEDGER_SEGMENTS_MAX];
};

struct sale_cache {
    pthread_mutex_t mutex; /* for writers; readers take no lock */
    size_t count;          /* sales in the chains */
    struct sale *out;      /* retired sales that wait to be freed, the earliest first */
    struct sale **out_end;
    size_t out_count;
    _Atomic unsigned epoch;
    _Atomic size_t readers[2];     /* see why_two_counters */
    _Atomic int64_t held_until_ns; /* see sale_cache_expect_held */
    _Atomic(struct sale *) chains[CHAINS];
};

struct sale_cache *sale_cache_open(void)
{
    struct sale_cache *cache = memory_must(calloc(1, sizeof *cache));
    pthread_mutex_init(&cache->mutex, NULL);
    cache->out_end = &cache->out;
    return cache;
}

static void sale_free(struct sale *sale)
{
    pthread_mutex_destroy(&sale->mutex);
    free(sale);
}

unsigned sale_cache_enter(struct sale_cache *cache)
{
    unsigned section = atomic_load(&cache->epoch) & 1;
    atomic_fetch_add(&cache->readers[section], 1);
    return section;
}

void sale_cache_leave(struct sale_cache *cache, unsigned section)
{
    size_t before = atomic_fetch_sub(&cache->readers[section], 1);
    assert(before > 0);
}

static void free_out(struct sale_cache *cache)
{
    struct sale *sale = cache->out;
    cache->out = sale->next_out;
    if (!cache->out)
        cache->out_end = &cache->out;
    cache->out_count--;
    sale_free(sale);
}

/* Frees the retired sales that no thread can use any more. Under the mutex. */
static void free_unseen(struct sale_cache *cache)
{
    unsigned epoch = atomic_load(&cache->epoch);
    for (int i = 0; i < 2 && atomic_load(&cache->readers[(epoch + 1) & 1]) == 0; i++)
        atomic_store(&cache->epoch, ++epoch);
    while (cache->out && epoch - cache->out->out_epoch >= 2)
        free_out(cache);
}

void sale_cache_close(struct sale_cache **cache)
{
    for (size_t i = 0; *cache && i < CHAINS; i++)
        for (struct sale *sale = atomic_load(&(*cache)->chains[i]), *next; sale; sale = next) {
            next = atomic_load(&sale->chained);
            sale_free(sale);
        }
    while (*cache && (*cache)->out)
        free_out(*cache);
    free(*cache);
    *cache = NULL;
}

void sale_cache_expect_held(struct sale_cache *cache, int64_t until_ns)
{
    atomic_store_explicit(&cache->held_until_ns, until_ns, memory_order_relaxed);
}

bool sale_cache_held_expected(const struct sale_cache *cache, int64_t now_ns)
{
    return now_ns < atomic_load_explicit(&cache->held_until_ns, memory_order_relaxed);
}

struct sale *sale_cache_find(const struct sale_cache *cache, const char *sku)
{
    struct sale *sale = atomic_load(&cache->chains[hash_slot(sku, CHAINS)]);
    while (sale && strcmp(sale->sku, sku) != 0)
        sale = atomic_load(&sale->chained);
    return sale;
}

/* Takes the sale out of its chain; threads at the sale still follow its link. Under the mutex. */
static void take_out(struct sale_cache *cache, struct sale *sale)
{
    _Atomic(struct sale *) *link = &cache->chains[hash_slot(sale->sku, CHAINS)];
    while (atomic_load(link) != sale)
        link = &atomic_load(link)->chained;
    atomic_store(link, atomic_load(&sale->chained));
    sale->out_epoch = atomic_load(&cache->epoch);
    *cache->out_end = sale;
    cache->out_end = &sale->next_out;
    cache->out_count++;
    cache->count--;
}

static struct sale *sale_new(const char *sku)
{
    struct sale *sale = memory_must(calloc(1, sizeof *sale));
    assert(strlen(sku) < IDENTIFIER_SIZE);
    strcpy(sale->sku, sku);
    pthread_mutex_init(&sale->mutex, NULL);
    return sale;
}

/* The new epoch tells a thread that is asking the ledger that its answer may be out of date. */
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
    /* Nothing is known of the new round's segments yet: the hints are those of an even split. */
    uint32_t share = (row->total + row->segments - 1) / row->segments;
    for (uint32_t i = 0; i < row->segments; i++)
        sale_hint_set(sale, i, share);
    invalidate_locked(sale);
}

/* Only a later round or version counts, because rows arrive in any order from several threads. */
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

static bool is_full(const struct sale_cache *cache)
{
    return cache->count >= SALES_MAX || cache->count + cache->out_count >= SALES_ALL_MAX;
}

/* Sets a new sale's numbers before it can be found: other threads divide by its segments. */
struct sale *sale_cache_put(struct sale_cache *cache, const struct ledger_sale *row)
{
    assert(row->round > 0 && row->segments > 0 && row->segments <= LEDGER_SEGMENTS_MAX);
    pthread_mutex_lock(&cache->mutex);
    struct sale *known = sale_cache_find(cache, row->sku), *sale = known;
    free_unseen(cache);
    if (!known && !is_full(cache))
        sale = sale_new(row->sku);
    if (sale) {
        pthread_mutex_lock(&sale->mutex);
        update(sale, row);
        pthread_mutex_unlock(&sale->mutex);
    }
    if (sale && !known) {
        cache->count++;
        _Atomic(struct sale *) *chain = &cache->chains[hash_slot(row->sku, CHAINS)];
        atomic_store(&sale->chained, atomic_load(chain));
        atomic_store(chain, sale);
    }
    pthread_mutex_unlock(&cache->mutex);
    return sale;
}

void sale_cache_invalidate(struct sale_cache *cache)
{
    unsigned section = sale_cache_enter(cache);
    for (size_t i = 0; i < CHAINS; i++)
        for (struct sale *sale = atomic_load(&cache->chains[i]); sale;
             sale = atomic_load(&sale->chained))
            sale_invalidate(sale);
    sale_cache_leave(cache, section);
}

void sale_cache_retire(struct sale_cache *cache, const char *sku, uint32_t round)
{
    pthread_mutex_lock(&cache->mutex);
    struct sale *sale = sale_cache_find(cache, sku);
    if (sale && sale_snapshot(sale).round <= round) {
        sale_invalidate(sale); /* a thread may still use it */
        take_out(cache, sale);
    }
    free_unseen(cache);
    pthread_mutex_unlock(&cache->mutex);
}

void sale_cache_on_message(struct sale_cache *cache, const char *message)
{
    char sku[IDENTIFIER_SIZE];
    const char *mark = strchr(message, '!'); /* no sku has it */
    size_t length = mark ? (size_t)(mark - message) : strlen(message);
    if (!identifier_copy(message, length, sku))
        return;
    unsigned section = sale_cache_enter(cache);
    struct sale *sale = sale_cache_find(cache, sku);
    if (sale)
        sale_invalidate(sale);
    sale_cache_leave(cache, section);
    if (mark)
        sale_cache_retire(cache, sku, (uint32_t)strtoul(mark + 1, NULL, 10));
}

bool sale_cache_full(struct sale_cache *cache)
{
    pthread_mutex_lock(&cache->mutex);
    free_unseen(cache);
    bool full = is_full(cache);
    pthread_mutex_unlock(&cache->mutex);
    return full;
}

const char *sale_sku(const struct sale *sale)
{
    return sale->sku;
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

/* Set while a segment is not suspect: the next mark has at least this fence. Fences are times in
 * microseconds, so they never reach this bit. */
#define SUSPECT_LATER (UINT64_C(1) << 63)

uint64_t sale_suspect_least(const struct sale *sale, uint32_t segment)
{
    assert(segment < LEDGER_SEGMENTS_MAX);
    uint64_t marked = atomic_load(&sale->suspects[segment]);
    return marked & SUSPECT_LATER ? marked ^ SUSPECT_LATER : 0;
}

void sale_suspect(struct sale *sale, uint32_t segment, uint64_t fence, uint32_t units)
{
    assert(segment < LEDGER_SEGMENTS_MAX);
    pthread_mutex_lock(&sale->mutex);
    uint64_t marked = atomic_load(&sale->suspects[segment]);
    if ((marked & ~SUSPECT_LATER) < fence || marked == (fence | SUSPECT_LATER)) {
        sale->suspect_units[segment] = units;
        atomic_store(&sale->suspects[segment], fence);
    }
    pthread_mutex_unlock(&sale->mutex);
}

void sale_suspect_later(struct sale *sale, uint32_t segment, uint64_t fence)
{
    assert(segment < LEDGER_SEGMENTS_MAX);
    pthread_mutex_lock(&sale->mutex);
    if (atomic_load(&sale->suspects[segment]) == 0)
        atomic_store(&sale->suspects[segment], fence | SUSPECT_LATER);
    pthread_mutex_unlock(&sale->mutex);
}

uint64_t sale_suspect_take(struct sale *sale, uint32_t segment, uint32_t *units_out)
{
    assert(segment < LEDGER_SEGMENTS_MAX);
    uint64_t marked = atomic_load_explicit(&sale->suspects[segment], memory_order_relaxed);
    if (marked == 0 || marked & SUSPECT_LATER)
        return 0; /* marks are rare, and a lock would claim the cache line */
    pthread_mutex_lock(&sale->mutex);
    marked = atomic_load(&sale->suspects[segment]);
    bool suspect = marked != 0 && !(marked & SUSPECT_LATER); /* unless a thread was faster */
    *units_out = sale->suspect_units[segment];
    if (suspect)
        atomic_store(&sale->suspects[segment], 0);
    pthread_mutex_unlock(&sale->mutex);
    return suspect ? marked : 0;
}

void sale_remember_left(struct sale *sale, uint32_t epoch, uint32_t units, int64_t until_ns)
{
    assert(until_ns > 0);
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

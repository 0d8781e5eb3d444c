/* Snapshots of sales' stock: the prepared answers to GET /stock/{sku}, one per sku. */
#include "service/request/stock_snapshot.h"

#include <assert.h>
#include <pthread.h>
#include <stdbool.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/identifier.h"
#include "base/memory.h"
#include "service/request/prepared.h"

enum { SWEEP = 8 }; /* sets that each stock_snapshot_keep searches for idle snapshots */

struct place {
    char sku[IDENTIFIER_SIZE]; /* "": free */
    bool asked;                /* a due request was sent to the worker */
    int64_t asked_ns;          /* when the ledger was asked */
    struct prepared *answer;   /* NULL: no such sale */
};

struct set {
    uint64_t changes;
    struct place places[STOCK_SNAPSHOT_WAYS];
};

struct stock_snapshots {
    pthread_mutex_t mutex; /* guards everything; no answer is released under it */
    size_t bytes;
    size_t hand; /* the set that is swept next */
    struct set sets[STOCK_SNAPSHOT_SETS];
};

/* Answers to release after the mutex. */
struct dropped {
    size_t count;
    struct prepared *answers[SWEEP * STOCK_SNAPSHOT_WAYS + 2];
};

struct stock_snapshots *stock_snapshots_open(void)
{
    struct stock_snapshots *snapshots = memory_must(calloc(1, sizeof *snapshots));
    pthread_mutex_init(&snapshots->mutex, NULL);
    return snapshots;
}

void stock_snapshots_close(struct stock_snapshots **snapshots)
{
    if (!*snapshots)
        return;
    /* Without an answer all is left untouched: memory never written costs nothing. */
    for (size_t i = 0; (*snapshots)->bytes > 0 && i < STOCK_SNAPSHOT_SETS; i++)
        for (size_t j = 0; j < STOCK_SNAPSHOT_WAYS; j++)
            prepared_release(&(*snapshots)->sets[i].places[j].answer);
    pthread_mutex_destroy(&(*snapshots)->mutex);
    free(*snapshots);
    *snapshots = NULL;
}

static struct set *set_of(struct stock_snapshots *snapshots, const char *sku)
{
    return &snapshots->sets[hash_slot(sku, STOCK_SNAPSHOT_SETS)];
}

/* The sku's place, or NULL. */
static struct place *find(struct set *set, const char *sku)
{
    for (size_t i = 0; i < STOCK_SNAPSHOT_WAYS; i++)
        if (strcmp(set->places[i].sku, sku) == 0)
            return &set->places[i];
    return NULL;
}

static void drop(struct stock_snapshots *snapshots, struct place *place, struct dropped *dropped)
{
    if (place->answer) {
        snapshots->bytes -= prepared_size(place->answer);
        dropped->answers[dropped->count++] = place->answer;
    }
    *place = (struct place){.answer = NULL};
}

static void release(struct dropped *dropped)
{
    while (dropped->count > 0)
        prepared_release(&dropped->answers[--dropped->count]);
}

/* ---- asking ---- */

bool stock_snapshot_find(struct stock_snapshots *snapshots, const char *sku, int64_t now_ns,
                         bool worker, struct prepared **held_out)
{
    pthread_mutex_lock(&snapshots->mutex);
    struct place *place = find(set_of(snapshots, sku), sku);
    int64_t age_ns = place ? now_ns - place->asked_ns : INT64_MAX;
    bool young = age_ns < STOCK_SNAPSHOT_AGE_MS_MAX * CLOCK_NS_PER_MS;
    bool found =
        age_ns < STOCK_SNAPSHOT_FRESH_MS * CLOCK_NS_PER_MS || (young && place->asked && !worker);
    *held_out = found && place->answer ? prepared_hold(place->answer) : NULL;
    if (young && !found)
        place->asked = true;
    pthread_mutex_unlock(&snapshots->mutex);
    return found;
}

/* ---- keeping ---- */

uint64_t stock_snapshot_changes(struct stock_snapshots *snapshots, const char *sku)
{
    pthread_mutex_lock(&snapshots->mutex);
    uint64_t changes = set_of(snapshots, sku)->changes;
    pthread_mutex_unlock(&snapshots->mutex);
    return changes;
}

/* Leaves free places untouched: memory never written costs nothing. */
static bool is_idle(const struct place *place, int64_t now_ns)
{
    return place->sku[0] != '\0' &&
           now_ns - place->asked_ns >= STOCK_SNAPSHOT_IDLE_MS * CLOCK_NS_PER_MS;
}

/* Sweeps a few sets per call, so that snapshots leave memory at least as fast as they enter it. */
static void sweep(struct stock_snapshots *snapshots, int64_t now_ns, struct dropped *dropped)
{
    for (size_t i = 0; i < SWEEP; i++) {
        struct set *set = &snapshots->sets[snapshots->hand++ % STOCK_SNAPSHOT_SETS];
        for (size_t j = 0; j < STOCK_SNAPSHOT_WAYS; j++)
            if (is_idle(&set->places[j], now_ns))
                drop(snapshots, &set->places[j], dropped);
    }
}

/* True when `a` is evicted before `b`: an unknown sku, so that a flood of unknown skus never evicts
 * a sale; otherwise the one that was read earlier. */
static bool goes_before(const struct place *a, const struct place *b)
{
    if (!a->answer != !b->answer)
        return !a->answer;
    return a->asked_ns < b->asked_ns;
}

static struct place *make_room(struct stock_snapshots *snapshots, struct set *set,
                               struct dropped *dropped)
{
    struct place *place = &set->places[0];
    for (size_t i = 0; i < STOCK_SNAPSHOT_WAYS; i++) {
        if (set->places[i].sku[0] == '\0')
            return &set->places[i];
        if (goes_before(&set->places[i], place))
            place = &set->places[i];
    }
    drop(snapshots, place, dropped);
    return place;
}

static void keep(struct stock_snapshots *snapshots, struct set *set, const char *sku,
                 int64_t asked_ns, struct prepared *answer, struct dropped *dropped)
{
    struct place *place = find(set, sku);
    if (place && place->asked_ns > asked_ns)
        return;
    if (place)
        drop(snapshots, place, dropped);
    size_t size = answer ? prepared_size(answer) : 0;
    if (snapshots->bytes + size > STOCK_SNAPSHOT_BYTES_MAX)
        return;
    if (!place)
        place = make_room(snapshots, set, dropped);
    snapshots->bytes += size;
    place->asked_ns = asked_ns;
    place->answer = answer ? prepared_hold(answer) : NULL;
    strcpy(place->sku, sku);
}

void stock_snapshot_keep(struct stock_snapshots *snapshots, const char *sku, uint64_t changes,
                         int64_t asked_ns, struct prepared *answer)
{
    struct dropped dropped = {.count = 0};
    assert(sku[0] != '\0' && strlen(sku) < IDENTIFIER_SIZE);
    pthread_mutex_lock(&snapshots->mutex);
    struct set *set = set_of(snapshots, sku);
    sweep(snapshots, asked_ns, &dropped);
    if (set->changes == changes)
        keep(snapshots, set, sku, asked_ns, answer, &dropped);
    pthread_mutex_unlock(&snapshots->mutex);
    release(&dropped);
}

void stock_snapshot_changed(struct stock_snapshots *snapshots, const char *sku)
{
    struct dropped dropped = {.count = 0};
    pthread_mutex_lock(&snapshots->mutex);
    struct set *set = set_of(snapshots, sku);
    struct place *place = find(set, sku);
    set->changes++;
    if (place)
        drop(snapshots, place, &dropped);
    pthread_mutex_unlock(&snapshots->mutex);
    release(&dropped);
}

size_t stock_snapshots_bytes(struct stock_snapshots *snapshots)
{
    pthread_mutex_lock(&snapshots->mutex);
    size_t bytes = snapshots->bytes;
    pthread_mutex_unlock(&snapshots->mutex);
    return bytes;
}

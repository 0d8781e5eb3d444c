/* Snapshots of sales' stock: the prepared answers to GET /stock/{sku}, one per sku, each read from
 * the ledger once however many clients ask.
 *
 * A snapshot's age counts from before its statement was sent. Up to STOCK_SNAPSHOT_FRESH_MS memory
 * answers every request. Then one request per snapshot goes to the worker that refreshes it, while
 * memory answers the others a little longer; at a steady pace nobody waits. From
 * STOCK_SNAPSHOT_AGE_MS_MAX on all requests wait for the worker. An unknown sku also has a
 * snapshot, which says so.
 *
 * The table's size is fixed, whatever clients ask for: a sku gets a place in its set; a full set
 * evicts an unknown sku, or else the snapshot that was read longest ago. An evicted snapshot costs
 * one more query to the ledger, nothing else. */
#ifndef SECKILL_SERVICE_REQUEST_STOCK_SNAPSHOT_H
#define SECKILL_SERVICE_REQUEST_STOCK_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STOCK_SNAPSHOT_FRESH_MS = 70,        /* a sku in demand is refreshed at this interval */
    STOCK_SNAPSHOT_AGE_MS_MAX = 90,      /* of 100 ms: the rest is for the way to the client */
    STOCK_SNAPSHOT_IDLE_MS = 1000,       /* a snapshot not refreshed for this long may be dropped */
    STOCK_SNAPSHOT_SETS = 4096,          /* a power of two */
    STOCK_SNAPSHOT_WAYS = 8,             /* places per set; in total three times SALES_MAX */
    STOCK_SNAPSHOT_BYTES_MAX = 64 << 20, /* of all answers together */
};

struct prepared;
struct stock_snapshots;

/* One per process. Closing it releases its answers; NULL is fine. */
struct stock_snapshots *stock_snapshots_open(void);
void stock_snapshots_close(struct stock_snapshots **snapshots);

/* True when memory answers a request for the sku at `now_ns` (monotonic): the caller gets a hold on
 * the answer, or NULL if the ledger had no such sale. False: the ledger must be asked. `worker`:
 * the caller is the worker with a due request, which stays due unless the snapshot was refreshed
 * since. Takes a mutex briefly; never waits for the ledger. Any thread. */
bool stock_snapshot_find(struct stock_snapshots *snapshots, const char *sku, int64_t now_ns,
                         bool worker, struct prepared **held_out);

/* Counts changes to the sale; read it before asking the ledger. */
uint64_t stock_snapshot_changes(struct stock_snapshots *snapshots, const char *sku);

/* Keeps what the ledger, asked at `asked_ns` (monotonic), said of a sku; NULL: no such sale. Takes
 * its own hold. Does nothing when a change was noted since `changes` was read, as the answer may be
 * older than the change; when a later answer is kept; or when STOCK_SNAPSHOT_BYTES_MAX would be
 * exceeded. */
void stock_snapshot_keep(struct stock_snapshots *snapshots, const char *sku, uint64_t changes,
                         int64_t asked_ns, struct prepared *answer);

/* Notes that an operator has, or may have, changed the sale: later requests get what the ledger
 * says after this call. */
void stock_snapshot_changed(struct stock_snapshots *snapshots, const char *sku);

/* Bytes of all kept answers. */
size_t stock_snapshots_bytes(struct stock_snapshots *snapshots);

#endif

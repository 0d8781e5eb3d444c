/* Snapshots of sales' stock: the prepared answers to GET /stock/{sku}, one per sku, each read from
 * the ledger once however many clients ask.
 *
 * A snapshot's age counts from before its statement was sent. Up to STOCK_SNAPSHOT_FRESH_MS every
 * request is answered from memory. Then one request per snapshot is told that it is due, and is
 * sent to the worker that reads it anew, while the others are answered from memory for a little
 * longer; so at a steady pace nobody waits. From STOCK_SNAPSHOT_AGE_MS_MAX on all are due and wait
 * for the worker. An unknown sku has a snapshot as well, which says so.
 *
 * The table is bounded by its size, not by what clients ask for: a sku is kept in one of the places
 * of its set, in that of an unknown sku if need be, or else of the snapshot that was read longest
 * ago. A snapshot that lost its place costs one more question to the ledger, nothing else. */
#ifndef SECKILL_SERVICE_REQUEST_STOCK_SNAPSHOT_H
#define SECKILL_SERVICE_REQUEST_STOCK_SNAPSHOT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    STOCK_SNAPSHOT_FRESH_MS = 70,        /* while it is asked for, a sku is read anew so often */
    STOCK_SNAPSHOT_AGE_MS_MAX = 90,      /* of 100: the rest is for the way to the client */
    STOCK_SNAPSHOT_IDLE_MS = 1000,       /* one that was not read anew for so long may go */
    STOCK_SNAPSHOT_SETS = 4096,          /* a power of two */
    STOCK_SNAPSHOT_WAYS = 8,             /* places of a set; together three times SALES_MAX */
    STOCK_SNAPSHOT_BYTES_MAX = 64 << 20, /* of all answers together */
};

struct prepared;
struct stock_snapshots;

/* One per process. Closing it releases its answers; NULL is fine. */
struct stock_snapshots *stock_snapshots_open(void);
void stock_snapshots_close(struct stock_snapshots **snapshots);

/* True when a request for the sku is answered from memory at `now_ns` (monotonic): the caller gets
 * a hold of the answer, or NULL where the ledger had no such sale. False: the ledger must be asked.
 * `worker`: the caller asks the ledger, about a request that was due when it came: it still is,
 * unless the snapshot was read anew since. Takes a mutex for a moment, and never waits for the
 * ledger. Any thread. */
bool stock_snapshot_find(struct stock_snapshots *snapshots, const char *sku, int64_t now_ns,
                         bool worker, struct prepared **held_out);

/* A count of changes to the sale, to be read before the ledger is asked. */
uint64_t stock_snapshot_changes(struct stock_snapshots *snapshots, const char *sku);

/* Keeps what the ledger, asked at `asked_ns` (monotonic), said of a sku; NULL: no such sale. Takes
 * a hold of its own. Does nothing when a change was noted since `changes` were counted, as the
 * answer may be older than the change; when a later answer is kept; or when
 * STOCK_SNAPSHOT_BYTES_MAX would be exceeded. */
void stock_snapshot_keep(struct stock_snapshots *snapshots, const char *sku, uint64_t changes,
                         int64_t asked_ns, struct prepared *answer);

/* Notes that an operator has changed the sale, or may have: whoever asks from now on is told what
 * the ledger says from now on. */
void stock_snapshot_changed(struct stock_snapshots *snapshots, const char *sku);

/* Bytes of the answers kept. */
size_t stock_snapshots_bytes(struct stock_snapshots *snapshots);

#endif

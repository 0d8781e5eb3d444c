/* The simulated ledger's tables: rows in three versions, row locks, and transactions. */
#include "test/simulate/ledger/ledger_table.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "test/simulate/machine/loop.h"

enum { TXNS_MAX = 64 };

static struct row rows[TABLES][TABLE_ROWS_MAX];
static size_t row_counts[TABLES];
static struct txn *open_txns[TXNS_MAX];
static size_t open_count;
static bool unsynced;
static uint64_t last_event_id;
static void (*commit_notice)(const struct txn *txn);
static void (*end_notice)(void);

void tables_begin(void)
{
    memset(row_counts, 0, sizeof row_counts);
    open_count = 0;
    unsynced = false;
    last_event_id = 0;
    struct row *feed = row_make(TABLE_FEED);
    feed->was = (struct version){.there = true, .feed = {.next = 1, .oldest = 1}};
    feed->now = feed->disk = feed->was;
}

uint64_t table_event_id(void)
{
    return ++last_event_id;
}

void tables_on_commit(void (*notice)(const struct txn *txn))
{
    commit_notice = notice;
}

void tables_on_end(void (*notice)(void))
{
    end_notice = notice;
}

struct row *table_row(enum table table, size_t i)
{
    return i < row_counts[table] ? &rows[table][i] : NULL;
}

const struct version *row_seen(const struct row *row, const struct txn *txn)
{
    return txn && row->owner == txn ? &row->now : &row->was;
}

struct row *row_make(enum table table)
{
    assert(row_counts[table] < TABLE_ROWS_MAX);
    struct row *row = &rows[table][row_counts[table]++];
    memset(row, 0, sizeof *row);
    row->table = table;
    row->on_disk = true;
    return row;
}

/* ---- keys ---- */

static bool is_there(const struct row *row)
{
    return row->now.there || row->was.there;
}

static const struct version *any(const struct row *row)
{
    return row->now.there ? &row->now : &row->was;
}

static bool is_key(enum table table, const struct version *row, const struct row_key *key)
{
    switch (table) {
    case TABLE_SALE:
    case TABLE_COUNT:
    case TABLE_EVENT_SALE:
        return strcmp(row->sku, key->sku) == 0;
    case TABLE_SEGMENT:
        return row->segment.segment == key->segment && strcmp(row->sku, key->sku) == 0;
    case TABLE_ORDER:
        return row->order.order_id == key->order_id;
    case TABLE_KEY:
        return strcmp(row->key, key->key) == 0 && strcmp(row->user_id, key->user_id) == 0;
    case TABLE_QUOTA:
        return row->quota.round == key->round && strcmp(row->user_id, key->user_id) == 0 &&
               strcmp(row->sku, key->sku) == 0;
    case TABLE_ROUND_END:
        return row->round_end.round == key->round && strcmp(row->sku, key->sku) == 0;
    case TABLE_SALE_ROUND:
        return row->sale_round.round == key->round && strcmp(row->sku, key->sku) == 0;
    case TABLE_EXPIRY:
        return row->expiry.expires_ms == key->moment_ms && row->expiry.first_id == key->order_id;
    case TABLE_PAYMENT:
    case TABLE_DUE:
        return row->payment.order_id == key->order_id && strcmp(row->key, key->key) == 0;
    case TABLE_RESTOCK:
    case TABLE_RESET:
        return strcmp(row->key, key->key) == 0 && strcmp(row->sku, key->sku) == 0;
    case TABLE_EVENT:
        return row->event.id == key->order_id;
    case TABLE_FEED:
        return true;
    default:
        return false;
    }
}

struct row *row_find(enum table table, const struct row_key *key)
{
    for (size_t i = 0; i < row_counts[table]; i++) {
        struct row *row = &rows[table][i];
        if (is_there(row) && is_key(table, any(row), key))
            return row;
    }
    return NULL;
}

struct row *row_of_sale(const char *sku)
{
    return row_find(TABLE_SALE, &(struct row_key){.sku = sku});
}

struct row *row_of_segment(const char *sku, uint32_t segment)
{
    return row_find(TABLE_SEGMENT, &(struct row_key){.sku = sku, .segment = segment});
}

struct row *row_of_order(uint64_t order_id)
{
    return row_find(TABLE_ORDER, &(struct row_key){.order_id = order_id});
}

struct row *row_of_key(const char *user_id, const char *key)
{
    return row_find(TABLE_KEY, &(struct row_key){.user_id = user_id, .key = key});
}

struct row *row_of_quota(const char *sku, uint32_t round, const char *user_id)
{
    return row_find(TABLE_QUOTA, &(struct row_key){.sku = sku, .round = round, .user_id = user_id});
}

struct row *row_of_count(const char *sku)
{
    return row_find(TABLE_COUNT, &(struct row_key){.sku = sku});
}

struct row *row_of_restock(const char *sku, const char *key)
{
    return row_find(TABLE_RESTOCK, &(struct row_key){.sku = sku, .key = key});
}

struct row *row_of_reset(const char *sku, const char *key)
{
    return row_find(TABLE_RESET, &(struct row_key){.sku = sku, .key = key});
}

struct row *row_of_round_end(const char *sku, uint32_t round)
{
    return row_find(TABLE_ROUND_END, &(struct row_key){.sku = sku, .round = round});
}

struct row *row_of_payment(uint64_t order_id, const char *ref)
{
    return row_find(TABLE_PAYMENT, &(struct row_key){.order_id = order_id, .key = ref});
}

struct row *row_of_due(uint64_t order_id, const char *ref)
{
    return row_find(TABLE_DUE, &(struct row_key){.order_id = order_id, .key = ref});
}

/* ---- transactions ---- */

struct txn *txn_begin(void)
{
    struct txn *txn = calloc(1, sizeof *txn);
    assert(open_count < TXNS_MAX);
    open_txns[open_count++] = txn;
    return txn;
}

bool txn_take(struct txn *txn, struct row *row)
{
    assert(!txn->ended);
    if (row->owner == txn)
        return true;
    if (row->owner)
        return false;
    assert(txn->count < TXN_ROWS_MAX);
    row->owner = txn;
    row->now = row->was;
    txn->rows[txn->count++] = row;
    return true;
}

void txn_give(struct txn *txn, struct row *row)
{
    if (txn->count > 0 && txn->rows[txn->count - 1] == row &&
        memcmp(&row->now, &row->was, sizeof row->now) == 0) {
        txn->count--;
        row->owner = NULL;
    }
}

struct version *txn_change(struct txn *txn, struct row *row)
{
    assert(row->owner == txn && !txn->ended);
    txn->wrote = true;
    return &row->now;
}

void order_becomes(struct txn *txn, struct row *row, enum ledger_status status)
{
    struct order_row *order = &txn_change(txn, row)->order;
    order->status = status;
    order->version++;
}

static void end(struct txn *txn)
{
    txn->ended = true;
    txn->waits_for = NULL;
    for (size_t i = 0; i < txn->count; i++)
        txn->rows[i]->owner = NULL;
    for (size_t i = 0; i < open_count; i++)
        if (open_txns[i] == txn) {
            open_txns[i] = open_txns[--open_count];
            break;
        }
    if (end_notice)
        end_notice();
}

void txn_commit(struct txn *txn)
{
    assert(!txn->ended);
    for (size_t i = 0; i < txn->count; i++) {
        struct row *row = txn->rows[i];
        if (!row->was.there)
            row->committed_ns = loop_now_ns();
        if (memcmp(&row->was, &row->now, sizeof row->now) != 0)
            row->changed_ns = loop_now_ns();
        row->before = row->was;
        row->was = row->now;
        row->on_disk = row->on_disk && !txn->wrote;
    }
    unsynced |= txn->wrote;
    end(txn);
    if (txn->wrote && commit_notice)
        commit_notice(txn);
}

void txn_rollback(struct txn *txn)
{
    if (txn->ended)
        return;
    for (size_t i = 0; i < txn->count; i++)
        txn->rows[i]->now = txn->rows[i]->was;
    end(txn);
}

void txn_rollback_all(void)
{
    while (open_count > 0)
        txn_rollback(open_txns[open_count - 1]);
}

/* ---- the disk ---- */

void tables_sync(void)
{
    for (int table = 0; table < TABLES && unsynced; table++)
        for (size_t i = 0; i < row_counts[table]; i++) {
            struct row *row = &rows[table][i];
            if (!row->on_disk)
                row->disk = row->was;
            row->on_disk = true;
        }
    unsynced = false;
}

void tables_lose(void)
{
    assert(open_count == 0);
    for (int table = 0; table < TABLES && unsynced; table++)
        for (size_t i = 0; i < row_counts[table]; i++) {
            struct row *row = &rows[table][i];
            if (!row->on_disk)
                row->was = row->now = row->disk;
            row->on_disk = true;
        }
    unsynced = false;
    last_event_id = 0;
    for (size_t i = 0; i < row_counts[TABLE_EVENT]; i++) {
        const struct version *batch = &rows[TABLE_EVENT][i].was;
        if (batch->there && batch->event.id > last_event_id)
            last_event_id = batch->event.id;
    }
}

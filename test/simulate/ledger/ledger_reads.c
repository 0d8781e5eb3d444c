/* The reads of the simulated ledger: sales and segments (sql/sales/sales.h), orders by id, by key
 * and by their time to pay, and users' counts (sql/orders/orders.h). */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql/orders/orders.h"
#include "sql/sales/sales.h"
#include "test/simulate/ledger/ledger_session.h"
#include "test/simulate/ledger/ledger_text.h"

/* ---- sales and segments ---- */

struct sale_question {
    const char *const *skus;
    size_t count;
    struct ledger_sale *sales_out; /* one for each sku; round 0 when it has none */
};

static enum db_result find_sales(struct ledger *ledger, void *context)
{
    struct sale_question *question = context;
    for (size_t i = 0; i < question->count; i++) {
        const struct row *row = row_of_sale(question->skus[i]);
        const struct version *seen = row ? row_seen(row, ledger->txn) : NULL;
        question->sales_out[i].round = 0;
        if (seen && seen->there)
            sale_of_version(&question->sales_out[i], seen, ledger->txn);
    }
    return DB_OK;
}

enum ledger_result ledger_sale_find(struct ledger *ledger, const char *sku,
                                    struct ledger_sale *sale_out)
{
    struct ledger_sale found;
    struct sale_question question = {&sku, 1, &found};
    enum ledger_result result = session_read(ledger, find_sales, &question, false);
    if (result != LEDGER_OK)
        return LEDGER_FAILED;
    if (found.round == 0)
        return LEDGER_NO;
    *sale_out = found;
    return LEDGER_OK;
}

enum ledger_result ledger_sales_find(struct ledger *ledger, const char *const *skus, size_t count,
                                     void (*visit)(const struct ledger_sale *sale, void *context),
                                     void *context)
{
    struct ledger_sale found[LEDGER_ORDERS_MAX];
    struct sale_question question = {skus, count, found};
    enum ledger_result result = session_read(ledger, find_sales, &question, false);
    for (size_t i = 0; i < count && result == LEDGER_OK; i++)
        if (found[i].round > 0)
            visit(&found[i], context);
    return result == LEDGER_OK ? LEDGER_OK : LEDGER_FAILED;
}

struct list_question {
    const char *after;
    size_t max, count;
    struct ledger_sale *sales_out;
};

static enum db_result list_sales(struct ledger *ledger, void *context)
{
    struct list_question *question = context;
    const struct row *row;
    question->count = 0;
    for (size_t i = 0; (row = table_row(TABLE_SALE, i)); i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        if (!seen->there || strcmp(seen->sku, question->after) <= 0)
            continue;
        assert(question->count < question->max); /* there are few */
        sale_of_version(&question->sales_out[question->count++], seen, ledger->txn);
    }
    return DB_OK;
}

/* In any order: one page has all sales. */
enum ledger_result ledger_sale_list(struct ledger *ledger, const char *after, size_t max,
                                    struct ledger_sale *sales_out, size_t *count_out)
{
    struct list_question question = {.after = after, .max = max, .sales_out = sales_out};
    enum ledger_result result = session_read(ledger, list_sales, &question, false);
    *count_out = result == LEDGER_OK ? question.count : 0;
    return result;
}

struct segments_question {
    const char *sku;
    struct ledger_segment *segments_out;
    size_t count;
};

static enum db_result find_segments(struct ledger *ledger, void *context)
{
    struct segments_question *question = context;
    question->count = 0;
    for (uint32_t i = 0; i < LEDGER_SEGMENTS_MAX; i++) {
        const struct row *row = row_of_segment(question->sku, i);
        const struct version *seen = row ? row_seen(row, ledger->txn) : NULL;
        if (!seen || !seen->there)
            break;
        segment_of_version(&question->segments_out[question->count++], seen);
    }
    return DB_OK;
}

enum ledger_result ledger_segments(struct ledger *ledger, const char *sku,
                                   struct ledger_segment *segments_out, size_t *count_out)
{
    struct segments_question question = {sku, segments_out, 0};
    enum ledger_result result = session_read(ledger, find_segments, &question, false);
    *count_out = question.count;
    if (result != LEDGER_OK)
        return LEDGER_FAILED;
    return *count_out > 0 ? LEDGER_OK : LEDGER_NO;
}

struct stock_question {
    const char *const *skus;
    size_t count;
    ledger_stock_visit *visit;
    void *context;
};

static enum db_result find_stock(struct ledger *ledger, void *context)
{
    const struct stock_question *question = context;
    struct ledger_segment segments[LEDGER_SEGMENTS_MAX];
    for (size_t i = 0; i < question->count; i++) {
        struct ledger_sale sale;
        struct sale_question of_sale = {&question->skus[i], 1, &sale};
        struct segments_question of_segments = {question->skus[i], segments, 0};
        find_sales(ledger, &of_sale);
        find_segments(ledger, &of_segments);
        if (sale.round > 0)
            question->visit(&sale, segments, of_segments.count, question->context);
    }
    return DB_OK;
}

/* Rows that make no sense are not simulated. */
enum ledger_result ledger_stock_find(struct ledger *ledger, const char *const *skus, size_t count,
                                     bool as_it_is, ledger_stock_visit *visit, void *context)
{
    (void)as_it_is;
    struct stock_question question = {skus, count, visit, context};
    enum ledger_result result = session_read(ledger, find_stock, &question, false);
    return result == LEDGER_OK ? LEDGER_OK : LEDGER_FAILED;
}

/* ---- orders ---- */

struct records_question {
    struct ledger_record *const *records;
    size_t count;
};

static enum db_result find_orders(struct ledger *ledger, void *context)
{
    struct records_question *question = context;
    for (size_t i = 0; i < question->count; i++)
        record_of_row(question->records[i], row_of_order(question->records[i]->order_id),
                      ledger->txn, false);
    return DB_OK;
}

enum ledger_result ledger_orders_find(struct ledger *ledger, struct ledger_record *const *records,
                                      size_t count)
{
    struct records_question question = {records, count};
    enum ledger_result result = session_read(ledger, find_orders, &question, false);
    return result == LEDGER_OK ? LEDGER_OK : LEDGER_FAILED;
}

struct keys_question {
    struct ledger_key *keys;
    size_t count;
};

/* A row that another transaction has written shows its newest version. */
static enum db_result find_keys(struct ledger *ledger, void *context)
{
    struct keys_question *question = context;
    (void)ledger;
    for (size_t i = 0; i < question->count; i++) {
        struct ledger_key *key = &question->keys[i];
        const struct row *row = row_of_key(key->user_id, key->key);
        const struct version *newest = row && row->owner ? &row->now : row ? &row->was : NULL;
        key->order_id = newest && newest->there ? newest->key_order_id : 0;
    }
    return DB_OK;
}

enum ledger_result ledger_keys_find(struct ledger *ledger, struct ledger_key *keys, size_t count)
{
    struct keys_question question = {keys, count};
    enum ledger_result result = session_read(ledger, find_keys, &question, false);
    return result == LEDGER_OK ? LEDGER_OK : LEDGER_FAILED;
}

struct quotas_question {
    struct ledger_quota *quotas;
    size_t count;
};

static enum db_result find_quotas(struct ledger *ledger, void *context)
{
    struct quotas_question *question = context;
    for (size_t i = 0; i < question->count; i++) {
        struct ledger_quota *quota = &question->quotas[i];
        const struct row *row = row_of_quota(quota->sku, quota->round, quota->user_id);
        const struct version *seen = row ? row_seen(row, ledger->txn) : NULL;
        quota->units = 0;
        quota->order_count = 0;
        if (!seen || !seen->there)
            continue;
        quota->units = seen->quota.units;
        quota->order_count = seen->quota.id_count;
        memcpy(quota->order_ids, seen->quota.ids, sizeof quota->order_ids);
    }
    return DB_OK;
}

enum ledger_result ledger_quotas_find(struct ledger *ledger, struct ledger_quota *quotas,
                                      size_t count)
{
    struct quotas_question question = {quotas, count};
    enum ledger_result result = session_read(ledger, find_quotas, &question, false);
    return result == LEDGER_OK ? LEDGER_OK : LEDGER_FAILED;
}

/* ---- what is due ---- */

enum { RANGES_MAX = 64 };

/* As it was read: the server may die, and the row be lost, before its orders are read. */
struct range {
    struct row *row;
    struct expiry_row was;
    bool due; /* some of its orders are reserved and due */
};

struct due_question {
    const struct ledger_due_cursor *cursor;
    size_t max;
    struct range ranges[TABLE_ROWS_MAX];
    size_t range_count;
    struct ledger_due *due_out;
    size_t count;
};

static int compare_ranges(const void *a, const void *b)
{
    const struct expiry_row *one = &((const struct range *)a)->was;
    const struct expiry_row *other = &((const struct range *)b)->was;
    if (one->expires_ms != other->expires_ms)
        return one->expires_ms < other->expires_ms ? -1 : 1;
    return one->first_id < other->first_id ? -1 : one->first_id > other->first_id;
}

/* Few enough that the cursor is never needed: the ranges that are due are read in one go. */
static enum db_result find_ranges(struct ledger *ledger, void *context)
{
    struct due_question *question = context;
    struct row *row;
    question->range_count = 0;
    for (size_t i = 0; (row = table_row(TABLE_EXPIRY, i)); i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        if (seen->there && seen->expiry.expires_ms <= ledger_server_ms())
            question->ranges[question->range_count++] =
                (struct range){.row = row, .was = seen->expiry};
    }
    qsort(question->ranges, question->range_count, sizeof *question->ranges, compare_ranges);
    if (question->range_count > RANGES_MAX)
        question->range_count = RANGES_MAX;
    return DB_OK;
}

static bool is_due(struct due_question *question, const struct version *order)
{
    bool due = false;
    int64_t last_ms = question->ranges[question->range_count - 1].was.expires_ms;
    if (!order->there || order->order.status != LEDGER_RESERVED || order->order.expires_ms == 0 ||
        version_due_ms(order) > last_ms)
        return false;
    for (size_t i = 0; i < question->range_count; i++) {
        struct range *range = &question->ranges[i];
        bool within = order->order.order_id >= range->was.first_id &&
                      order->order.order_id <= range->was.last_id;
        range->due |= within;
        due |= within;
    }
    return due;
}

static int compare_due(const void *a, const void *b)
{
    const struct ledger_due *one = a, *other = b;
    return one->order_id < other->order_id ? -1 : one->order_id > other->order_id;
}

static enum db_result find_due(struct ledger *ledger, void *context)
{
    struct due_question *question = context;
    const struct row *row;
    question->count = 0;
    for (size_t i = 0; i < question->range_count; i++)
        question->ranges[i].due = false;
    for (size_t i = 0; (row = table_row(TABLE_ORDER, i)) && question->count < question->max; i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        if (!is_due(question, seen))
            continue;
        struct ledger_due *due = &question->due_out[question->count++];
        due->order_id = seen->order.order_id;
        strcpy(due->sku, seen->sku);
        due->round = seen->order.round;
        due->qty = seen->order.qty;
    }
    qsort(question->due_out, question->count, sizeof *question->due_out, compare_due);
    return DB_OK;
}

static enum db_result delete_decided(struct ledger *ledger, void *context)
{
    struct due_question *question = context;
    for (size_t i = 0; i < question->range_count; i++) {
        const struct range *range = &question->ranges[i];
        if (range->due)
            continue;
        enum db_result result = session_lock(ledger, range->row);
        if (result != DB_OK)
            return result;
        const struct version *now = row_seen(range->row, ledger->txn);
        if (now->there && memcmp(&now->expiry, &range->was, sizeof range->was) == 0)
            txn_change(ledger->txn, range->row)->there = false;
    }
    return DB_OK;
}

static bool any_decided(const struct due_question *question)
{
    for (size_t i = 0; i < question->range_count; i++)
        if (!question->ranges[i].due)
            return true;
    return false;
}

enum ledger_result ledger_due_list(struct ledger *ledger, struct ledger_due_cursor *cursor,
                                   size_t max, struct ledger_due *due_out, size_t *count_out)
{
    struct due_question question = {.cursor = cursor, .max = max, .due_out = due_out};
    *count_out = 0;
    if (session_read(ledger, find_ranges, &question, false) != LEDGER_OK)
        return LEDGER_FAILED;
    cursor->more = question.range_count == RANGES_MAX;
    if (question.range_count == 0)
        return LEDGER_OK;
    if (session_read(ledger, find_due, &question, false) != LEDGER_OK)
        return LEDGER_FAILED;
    *count_out = question.count;
    if (any_decided(&question) &&
        session_read(ledger, delete_decided, &question, true) != LEDGER_OK)
        return LEDGER_FAILED;
    return LEDGER_OK;
}

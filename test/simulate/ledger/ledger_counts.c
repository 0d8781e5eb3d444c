/* The counting for a new limit in the simulated ledger: sql/sales/sales.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sql/sales/sales.h"
#include "test/simulate/machine/chance.h"
#include "test/simulate/ledger/ledger_session.h"
#include "test/simulate/ledger/ledger_text.h"
#include "test/simulate/story.h"

struct finding {
    char *sku_out;
    bool found;
};

static enum db_result find_count(struct ledger *ledger, void *context)
{
    struct finding *finding = context;
    const struct row *row;
    finding->found = false;
    for (size_t i = 0; (row = table_row(TABLE_SALE, i)) && !finding->found; i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        if (!seen->there || !count_seen(seen->sku, seen->sale.round, ledger->txn))
            continue;
        strcpy(finding->sku_out, seen->sku);
        finding->found = true;
    }
    return DB_OK;
}

enum ledger_result ledger_count_find(struct ledger *ledger, char sku_out[IDENTIFIER_SIZE])
{
    struct finding finding = {.sku_out = sku_out};
    if (session_read(ledger, find_count, &finding, false) != LEDGER_OK)
        return LEDGER_FAILED;
    return finding.found ? LEDGER_OK : LEDGER_NO;
}

struct step {
    const char *sku;
    uint32_t rows;
    struct row *sale, *count;
    uint32_t round;
    bool complete, all, equal;
};

static bool is_complete(const struct step *step)
{
    const struct count_row *count = &step->count->now.count;
    return count->cleared && count->counted_to >= count->last_id;
}

static enum db_result lock(struct ledger *ledger, struct step *step)
{
    enum db_result result = session_send(ledger, false);
    if (result != DB_OK)
        return result;
    step->sale = row_of_sale(step->sku);
    step->count = row_of_count(step->sku);
    if (step->sale)
        result = session_lock(ledger, step->sale);
    if (result == DB_OK && step->count)
        result = session_lock(ledger, step->count);
    result = session_answer(ledger, result);
    if (result != DB_OK)
        return result;
    bool there = step->sale && step->count && step->sale->now.there && step->count->now.there &&
                 step->count->now.count.round == step->sale->now.sale.round;
    if (!there)
        return DB_NO;
    step->round = step->count->now.count.round;
    step->all = step->count->now.count.last_id == INT64_MAX;
    return DB_OK;
}

/* The sale's first counted row, by round and user; NULL when no row is counted. */
static struct row *first_quota(const struct ledger *ledger, const char *sku)
{
    struct row *first = NULL, *row;
    for (size_t i = 0; (row = table_row(TABLE_QUOTA, i)); i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        if (!seen->there || strcmp(seen->sku, sku) != 0)
            continue;
        const struct version *best = first ? row_seen(first, ledger->txn) : seen;
        int64_t rounds = (int64_t)seen->quota.round - best->quota.round;
        if (!first || rounds < 0 || (rounds == 0 && strcmp(seen->user_id, best->user_id) < 0))
            first = row;
    }
    return first;
}

/* Where the round's orders seem to begin. Ids are small here, and the ledger's guess is 0. */
static uint64_t guess_first(const struct count_row *count)
{
    bool wrong = count->last_id < UINT32_MAX && chance_strikes(FAULT_GUESS_WRONG);
    return wrong ? chance_effect((uint32_t)count->last_id + 1) : 0;
}

/* Deletes what an earlier limit has counted. */
static enum db_result forget(struct ledger *ledger, struct step *step)
{
    uint32_t deleted = 0;
    struct row *row;
    enum db_result result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    while (deleted < step->rows && result == DB_OK && (row = first_quota(ledger, step->sku))) {
        result = session_lock(ledger, row);
        if (result == DB_OK)
            txn_change(ledger->txn, row)->there = false;
        deleted++;
    }
    if (result == DB_OK && deleted < step->rows) {
        struct count_row *count = &txn_change(ledger->txn, step->count)->count;
        count->cleared = true;
        count->counted_to = guess_first(count);
    }
    return session_answer(ledger, result);
}

static enum db_result count_order(struct ledger *ledger, const struct step *step,
                                  const struct version *order)
{
    uint32_t limit = step->sale->now.sale.settings.per_user_limit;
    const struct row_key key = {
        .sku = step->sku, .round = order->order.round, .user_id = order->user_id};
    struct row *row;
    enum db_result result = session_lock_key(ledger, TABLE_QUOTA, &key, &row);
    if (result != DB_OK)
        return result;
    struct version *version = txn_change(ledger->txn, row);
    if (!version->there) {
        text_copy(version->sku, step->sku);
        text_copy(version->user_id, order->user_id);
        version->quota = (struct quota_row){.round = order->order.round};
    }
    version->there = true;
    struct quota_row *quota = &version->quota;
    quota->units += version_held(order);
    quota->allowed = limit > quota->units ? limit : quota->units;
    quota_id_add(quota, order->order.order_id);
    return DB_OK;
}

/* The next order after `after` that there is; NULL: none up to `last`. */
static const struct version *next_order(const struct ledger *ledger, uint64_t after, uint64_t last)
{
    const struct version *next = NULL;
    const struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_ORDER, i)); i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        if (seen->there && seen->order.order_id > after && seen->order.order_id <= last &&
            (!next || seen->order.order_id < next->order.order_id))
            next = seen;
    }
    return next;
}

static bool is_held(const struct version *order, const char *sku, uint32_t round)
{
    return order->order.round == round && strcmp(order->sku, sku) == 0 && version_held(order) > 0;
}

static enum db_result count(struct ledger *ledger, struct step *step)
{
    enum db_result result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    struct count_row *counting = &txn_change(ledger->txn, step->count)->count;
    uint64_t at = counting->counted_to;
    uint32_t passed = 0;
    const struct version *order;
    while (passed < step->rows && result == DB_OK &&
           (order = next_order(ledger, at, counting->last_id))) {
        at = order->order.order_id;
        passed++;
        if (is_held(order, step->sku, counting->round))
            result = count_order(ledger, step, order);
    }
    counting->counted_to = passed < step->rows ? counting->last_id : at;
    return session_answer(ledger, result);
}

static enum db_result step_body(struct ledger *ledger, void *context)
{
    struct step *step = context;
    step->complete = false;
    enum db_result result = lock(ledger, step);
    if (result != DB_OK)
        return result;
    if (!step->count->now.count.cleared)
        return forget(ledger, step);
    if (!is_complete(step))
        result = count(ledger, step);
    step->complete = result == DB_OK && is_complete(step);
    return result;
}

static enum db_result open_body(struct ledger *ledger, void *context)
{
    struct step *step = context;
    enum db_result result = lock(ledger, step);
    if (result != DB_OK || !is_complete(step))
        return result == DB_OK ? DB_NO : result;
    result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    uint32_t version = ++txn_change(ledger->txn, step->sale)->sale.settings.version;
    for (uint32_t i = 0; i < LEDGER_SEGMENTS_MAX && result == DB_OK; i++) {
        struct row *row = row_of_segment(step->sku, i);
        if (!row)
            break;
        result = session_lock(ledger, row);
        if (result == DB_OK && row->now.there)
            txn_change(ledger->txn, row)->segment.settings_version = version;
    }
    if (result == DB_OK)
        txn_change(ledger->txn, step->count)->there = false;
    return session_answer(ledger, result);
}

/* One statement, so it sees one moment. */
static enum db_result compare_sums(struct ledger *ledger, void *context)
{
    struct step *step = context;
    const struct row *row;
    uint64_t units = 0, sold = 0;
    for (size_t i = 0; (row = table_row(TABLE_QUOTA, i)); i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        if (seen->there && seen->quota.round == step->round && strcmp(seen->sku, step->sku) == 0)
            units += seen->quota.units;
    }
    for (size_t i = 0; (row = table_row(TABLE_SEGMENT, i)); i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        if (seen->there && seen->segment.round == step->round && strcmp(seen->sku, step->sku) == 0)
            sold += seen->segment.sold;
    }
    step->equal = units == sold;
    return DB_OK;
}

/* Begins again, from id 0. */
static enum db_result count_all_body(struct ledger *ledger, void *context)
{
    struct step *step = context;
    enum db_result result = lock(ledger, step);
    if (result != DB_OK || !is_complete(step))
        return result == DB_NO ? DB_OK : result;
    result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    struct count_row *count = &txn_change(ledger->txn, step->count)->count;
    count->cleared = false;
    count->counted_to = 0;
    count->last_id = INT64_MAX;
    return session_answer(ledger, DB_OK);
}

static enum ledger_result count_all(struct ledger *ledger, struct step *step)
{
    story("    ledger: orders were missed; all are counted");
    return session_run(ledger, count_all_body, step) == DB_OK ? LEDGER_OK : LEDGER_FAILED;
}

enum ledger_result ledger_count_step(struct ledger *ledger, const char *sku, uint32_t rows)
{
    struct step step = {.sku = sku, .rows = rows};
    enum ledger_result result = session_result(session_run(ledger, step_body, &step));
    if (result != LEDGER_OK || !step.complete)
        return result;
    if (!step.all && session_read(ledger, compare_sums, &step, false) != LEDGER_OK)
        return LEDGER_FAILED;
    if (!step.all && !step.equal)
        return count_all(ledger, &step);
    result = session_result(session_run(ledger, open_body, &step));
    story("    ledger: the users are counted, the sale opens: %s",
          result == LEDGER_OK ? "done" : "not done");
    bool opened = result == LEDGER_OK, overtaken = result == LEDGER_NO;
    return opened ? LEDGER_NO : overtaken ? LEDGER_OK : result;
}

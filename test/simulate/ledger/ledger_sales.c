/* Changes of a sale in the simulated ledger: restock and settings of sql/sales/sales.h. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sql/sales/sales.h"
#include "test/simulate/ledger/ledger_session.h"
#include "test/simulate/ledger/ledger_text.h"
#include "test/simulate/story.h"

#define VERSION_CLOSED UINT32_C(2147483648) /* as sql/sales/ledger_sale.c */

static uint64_t greater(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

/* ---- restock ---- */

struct adding {
    struct ledger_restock *restock;
    struct ledger_sale *sale_out;
    struct ledger_segment *segments_out;
};

static enum db_result write_key(struct ledger *ledger, const struct ledger_restock *restock,
                                uint32_t round)
{
    struct row *row;
    if (restock->key[0] == '\0')
        return DB_OK;
    enum db_result result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    result = session_lock_key(ledger, TABLE_RESTOCK,
                              &(struct row_key){.sku = restock->sku, .key = restock->key}, &row);
    if (result == DB_OK && row->now.there)
        result = DB_DUPLICATE;
    if (result == DB_OK) {
        struct version *version = txn_change(ledger->txn, row);
        version->there = true;
        text_copy(version->sku, restock->sku);
        text_copy(version->key, restock->key);
        version->restock = (struct restock_row){restock->units, round};
    }
    return session_answer(ledger, result);
}

static enum db_result check_sale(struct ledger *ledger, struct ledger_restock *restock,
                                 struct row **row_out)
{
    enum db_result result = session_send(ledger, false);
    if (result != DB_OK)
        return result;
    *row_out = row_of_sale(restock->sku);
    result = session_answer(ledger, *row_out ? session_lock(ledger, *row_out) : DB_OK);
    if (result != DB_OK)
        return result;
    if (!*row_out || !(*row_out)->now.there ||
        (*row_out)->now.sale.segments != restock->fence_count)
        return DB_NO;
    uint64_t total = (*row_out)->now.sale.total;
    result = write_key(ledger, restock, (*row_out)->now.sale.round);
    restock->too_many = result == DB_OK && total + restock->units > restock->total_max;
    return restock->too_many ? DB_NO : result;
}

static enum db_result read_segments(struct ledger *ledger, struct adding *adding)
{
    const struct ledger_restock *restock = adding->restock;
    size_t count = 0;
    enum db_result result = session_send(ledger, false);
    if (result != DB_OK)
        return result;
    for (uint32_t i = 0; i < LEDGER_SEGMENTS_MAX && result == DB_OK; i++) {
        struct row *row = row_of_segment(restock->sku, i);
        result = row ? session_lock(ledger, row) : DB_OK;
        if (!row || result != DB_OK || !row->now.there)
            break;
        if (count < restock->fence_count)
            segment_of_version(&adding->segments_out[count], &row->now);
        count++;
    }
    result = session_answer(ledger, result);
    return result != DB_OK ? result : count == restock->fence_count ? DB_OK : DB_NO;
}

static void level(struct ledger_segment *segments, size_t count, uint32_t units)
{
    uint32_t left = units;
    for (size_t i = 0; i < count; i++)
        left += segments[i].capacity - segments[i].sold;
    for (size_t i = 0; i < count; i++)
        segments[i].capacity =
            segments[i].sold + left / (uint32_t)count + (i < left % (uint32_t)count);
}

static enum db_result write_changes(struct ledger *ledger, struct adding *adding, struct row *sale)
{
    const struct ledger_restock *restock = adding->restock;
    enum db_result result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    struct sale_row *changed = &txn_change(ledger->txn, sale)->sale;
    changed->total += restock->units;
    changed->restocked += restock->units;
    changed->settings.version++;
    for (size_t i = 0; i < restock->fence_count; i++) {
        struct row *row = row_of_segment(restock->sku, (uint32_t)i);
        struct segment_row *segment = &txn_change(ledger->txn, row)->segment;
        segment->capacity = adding->segments_out[i].capacity;
        segment->settings_version++;
        segment->fence = greater(segment->fence + 1, restock->fences[i]);
    }
    return session_answer(ledger, DB_OK);
}

static enum db_result restock_body(struct ledger *ledger, void *context)
{
    struct adding *adding = context;
    struct row *sale = NULL;
    enum db_result result = check_sale(ledger, adding->restock, &sale);
    if (result == DB_OK)
        result = read_segments(ledger, adding);
    if (result != DB_OK)
        return result;
    level(adding->segments_out, adding->restock->fence_count, adding->restock->units);
    result = write_changes(ledger, adding, sale);
    if (result == DB_OK)
        result = read_segments(ledger, adding);
    if (result == DB_OK)
        result = session_send(ledger, false);
    if (result != DB_OK)
        return result;
    sale_of_version(adding->sale_out, &sale->now, ledger->txn);
    return session_answer(ledger, DB_OK);
}

enum ledger_result ledger_restock(struct ledger *ledger, struct ledger_restock *restock,
                                  struct ledger_sale *sale_out, struct ledger_segment *segments_out)
{
    struct adding adding = {restock, sale_out, segments_out};
    restock->too_many = false;
    enum ledger_result result = session_result(session_run(ledger, restock_body, &adding));
    story("    ledger: restock of %u: %s", restock->units,
          result == LEDGER_OK        ? "done"
          : result == LEDGER_UNKNOWN ? "unknown"
                                     : "not done");
    return result;
}

struct restock_question {
    const char *sku, *key;
    bool found;
    uint32_t units, round;
};

static enum db_result find_restock(struct ledger *ledger, void *context)
{
    struct restock_question *question = context;
    const struct row *row = row_of_restock(question->sku, question->key);
    const struct version *seen = row ? row_seen(row, ledger->txn) : NULL;
    question->found = seen && seen->there;
    question->units = question->found ? seen->restock.units : 0;
    question->round = question->found ? seen->restock.round : 0;
    return DB_OK;
}

enum ledger_result ledger_restock_find(struct ledger *ledger, const char *sku, const char *key,
                                       uint32_t *units_out, uint32_t *round_out)
{
    struct restock_question question = {.sku = sku, .key = key};
    if (session_read(ledger, find_restock, &question, false) != LEDGER_OK)
        return LEDGER_FAILED;
    *units_out = question.found ? question.units : *units_out;
    *round_out = question.found ? question.round : *round_out;
    return question.found ? LEDGER_OK : LEDGER_NO;
}

/* ---- settings ---- */

struct change {
    const char *sku;
    const struct ledger_settings *settings;
    bool begins_count, counting;
};

static enum db_result set_versions(struct ledger *ledger, const char *sku, uint32_t version)
{
    for (uint32_t i = 0; i < LEDGER_SEGMENTS_MAX; i++) {
        struct row *row = row_of_segment(sku, i);
        if (!row)
            break;
        enum db_result result = session_lock(ledger, row);
        if (result != DB_OK)
            return result;
        if (row->now.there)
            txn_change(ledger->txn, row)->segment.settings_version = version;
    }
    return DB_OK;
}

/* Reads committed rows: the caller holds the locks of the sale's segments. */
static uint64_t last_order(const struct ledger *ledger, const char *sku)
{
    const struct row *row;
    uint64_t last = 0, sold = 0;
    for (uint32_t i = 0; (row = row_of_segment(sku, i)); i++)
        sold += row_seen(row, ledger->txn)->segment.sold;
    for (size_t i = 0; sold > 0 && (row = table_row(TABLE_ORDER, i)); i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        if (seen->there)
            last = greater(last, seen->order.order_id);
    }
    return last;
}

static enum db_result close_sale(struct ledger *ledger, const char *sku, uint32_t round)
{
    struct row *row;
    enum db_result result = set_versions(ledger, sku, VERSION_CLOSED);
    if (result == DB_OK)
        result = session_lock_key(ledger, TABLE_COUNT, &(struct row_key){.sku = sku}, &row);
    if (result != DB_OK)
        return result;
    struct version *version = txn_change(ledger->txn, row);
    version->there = true;
    text_copy(version->sku, sku);
    version->count = (struct count_row){.round = round, .last_id = last_order(ledger, sku)};
    return DB_OK;
}

static enum db_result open_sale(struct ledger *ledger, const char *sku, uint32_t version)
{
    enum db_result result = set_versions(ledger, sku, version);
    struct row *row = row_of_count(sku);
    if (result == DB_OK && row)
        result = session_lock(ledger, row);
    if (result == DB_OK && row)
        txn_change(ledger->txn, row)->there = false;
    return result;
}

static bool same_settings(const struct ledger_settings *a, const struct ledger_settings *b)
{
    return a->starts_ms == b->starts_ms && a->ends_ms == b->ends_ms &&
           a->per_user_limit == b->per_user_limit && a->pay_within_s == b->pay_within_s &&
           a->hold_max_s == b->hold_max_s && a->grace_s == b->grace_s &&
           a->refund_late == b->refund_late && a->paused == b->paused;
}

/* A version in which nothing is new counts as published. */
static enum db_result pass_over(struct ledger *ledger, const char *sku, uint32_t version)
{
    struct row *row = row_find(TABLE_EVENT_SALE, &(struct row_key){.sku = sku});
    enum db_result result = row ? session_lock(ledger, row) : DB_OK;
    if (result != DB_OK || !row || !row->now.there ||
        row->now.event_sale.settings_version != version)
        return result;
    struct event_sale_row *told = &txn_change(ledger->txn, row)->event_sale;
    told->settings_version++;
    told->quiet++;
    return DB_OK;
}

static enum db_result change_body(struct ledger *ledger, void *context)
{
    const struct change *change = context;
    uint32_t version = change->settings->version;
    struct row *row = row_of_sale(change->sku);
    bool same = false;
    enum db_result result = session_send(ledger, true);
    if (result == DB_OK && row)
        result = session_lock(ledger, row);
    if (result == DB_OK && row && row->now.there && row->now.sale.settings.version == version) {
        struct ledger_settings *settings = &txn_change(ledger->txn, row)->sale.settings;
        same = same_settings(settings, change->settings);
        *settings = *change->settings;
        settings->version = version + 1;
        settings->counting = false;
        result = session_answer(ledger, DB_OK);
    } else if (result == DB_OK) {
        result = session_answer(ledger, DB_OK);
        result = result == DB_OK ? DB_NO : result;
    }
    if (result != DB_OK || (change->counting && !change->begins_count))
        return result;
    result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    result = change->begins_count ? close_sale(ledger, change->sku, row->now.sale.round)
                                  : open_sale(ledger, change->sku, version + 1);
    if (result == DB_OK && same)
        result = pass_over(ledger, change->sku, version);
    return session_answer(ledger, result);
}

enum ledger_result ledger_settings_change(struct ledger *ledger, const char *sku,
                                          struct ledger_settings *settings, bool begins_count)
{
    struct change change = {sku, settings, begins_count, settings->per_user_limit > 0};
    change.counting &= begins_count || settings->counting;
    enum ledger_result result = session_result(session_run(ledger, change_body, &change));
    story("    ledger: settings version %u, limit %u%s%s: %s", settings->version + 1,
          settings->per_user_limit, settings->paused ? ", paused" : "",
          change.counting ? ", counting" : "",
          result == LEDGER_OK        ? "done"
          : result == LEDGER_UNKNOWN ? "unknown"
                                     : "not done");
    if (result == LEDGER_OK) {
        settings->version++;
        settings->counting = change.counting;
    }
    return result;
}

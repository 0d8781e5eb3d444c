/* The rounds of a sale in the simulated ledger: reset and end of a round, of sql/sales/sales.h. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql/sales/sales.h"
#include "test/simulate/ledger/ledger_events.h"
#include "test/simulate/ledger/ledger_retire.h"
#include "test/simulate/ledger/ledger_session.h"
#include "test/simulate/ledger/ledger_text.h"
#include "test/simulate/story.h"

#define VERSIONS_SINCE_MS INT64_C(1735689600000) /* 2025-01-01, as sql/sales/ledger_round.c */

/* ---- reset ---- */

struct beginning {
    struct ledger_reset *reset;
    const struct ledger_sale *sale;
    uint32_t round, version; /* before; a sku whose sale was retired goes on counting */
    struct ledger_segment *segments_out;
    struct row *row;
};

/* A sale's row of its last round, 0 for the first, and of a version that it never had: as
 * sql/sales/ledger_round.c. */
static void create_row(struct ledger *ledger, struct row *row, const char *sku)
{
    const struct version *last = ended_last(sku, false, ledger->txn);
    struct version *version = txn_change(ledger->txn, row);
    version->there = true;
    text_copy(version->sku, sku);
    version->sale = (struct sale_row){.round = 0};
    if (!last)
        return;
    version->sale.round = last->sale_round.round;
    version->sale.restocked = last->sale_round.restocked;
    version->sale.settings.version =
        (uint32_t)((ledger_server_ms() - VERSIONS_SINCE_MS) / 1000) + 16 * last->sale_round.round;
}

static enum db_result lock_sale(struct ledger *ledger, struct beginning *beginning)
{
    const struct ledger_sale *sale = beginning->sale;
    enum db_result result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    result =
        session_lock_key(ledger, TABLE_SALE, &(struct row_key){.sku = sale->sku}, &beginning->row);
    bool created = result == DB_OK && !beginning->row->now.there;
    if (created)
        create_row(ledger, beginning->row, sale->sku);
    result = session_answer(ledger, result);
    if (result != DB_OK)
        return result;
    const struct sale_row *now = &beginning->row->now.sale;
    beginning->round = now->round;
    beginning->version = now->settings.version;
    bool same = (created ? 0 : now->round) == sale->round &&
                (created ? 0 : now->settings.version) == sale->settings.version;
    return same ? DB_OK : DB_NO;
}

static struct sale_row row_of(const struct beginning *beginning)
{
    const struct ledger_sale *sale = beginning->sale;
    struct sale_row row = {.round = beginning->round + 1,
                           .total = sale->total,
                           .segments = sale->segments,
                           .settings = sale->settings};
    row.settings.version = beginning->version + 1;
    row.settings.counting = false;
    return row;
}

static enum db_result write_key(struct ledger *ledger, const struct beginning *beginning)
{
    const struct ledger_reset *reset = beginning->reset;
    struct row *row;
    if (!reset->key || reset->key[0] == '\0')
        return DB_OK;
    enum db_result result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    const struct row_key key = {.sku = beginning->sale->sku, .key = reset->key};
    result = session_lock_key(ledger, TABLE_RESET, &key, &row);
    if (result == DB_OK && row->now.there)
        result = DB_DUPLICATE;
    if (result == DB_OK) {
        struct version *version = txn_change(ledger->txn, row);
        version->there = true;
        text_copy(version->sku, beginning->sale->sku);
        text_copy(version->key, reset->key);
        version->reset =
            (struct reset_row){.sale = row_of(beginning), .request = strdup(reset->request)};
    }
    return session_answer(ledger, result);
}

static enum db_result read_held(struct ledger *ledger, const struct beginning *beginning)
{
    struct row *row;
    enum db_result result = session_send(ledger, false);
    if (result != DB_OK)
        return result;
    for (uint32_t i = 0; (row = row_of_segment(beginning->sale->sku, i)); i++) {
        result = session_lock(ledger, row);
        if (result != DB_OK)
            break;
        beginning->reset->held += row->now.there ? row->now.segment.sold : 0;
    }
    result = session_answer(ledger, result);
    bool refused = beginning->reset->held > 0 && !beginning->reset->end_round;
    return result == DB_OK && refused ? DB_NO : result;
}

static enum db_result note_end(struct ledger *ledger, const struct beginning *beginning)
{
    struct row *row;
    if (beginning->reset->held == 0)
        return DB_OK;
    const struct row_key key = {.sku = beginning->sale->sku, .round = beginning->round};
    enum db_result result = session_lock_key(ledger, TABLE_ROUND_END, &key, &row);
    if (result != DB_OK || row->now.there)
        return result == DB_OK ? DB_DUPLICATE : result;
    struct version *version = txn_change(ledger->txn, row);
    version->there = true;
    text_copy(version->sku, beginning->sale->sku);
    version->round_end =
        (struct round_end_row){.round = beginning->round, .units = beginning->reset->held};
    return DB_OK;
}

static enum db_result write_segment(struct ledger *ledger, const struct beginning *beginning,
                                    uint32_t i)
{
    const struct ledger_sale *sale = beginning->sale;
    struct row *row;
    const struct row_key key = {.sku = sale->sku, .segment = i};
    enum db_result result = session_lock_key(ledger, TABLE_SEGMENT, &key, &row);
    if (result != DB_OK)
        return result;
    struct version *version = txn_change(ledger->txn, row);
    uint64_t fence = version->there ? version->segment.fence + 1 : 0;
    version->there = true;
    text_copy(version->sku, sale->sku);
    version->segment = (struct segment_row){
        .segment = i,
        .round = beginning->round + 1,
        .capacity = sale->total / sale->segments + (i < sale->total % sale->segments),
        .settings_version = beginning->version + 1,
        .fence = fence > beginning->reset->fences[i] ? fence : beginning->reset->fences[i],
    };
    segment_of_version(&beginning->segments_out[i], version);
    return DB_OK;
}

static enum db_result delete_segments(struct ledger *ledger, const struct ledger_sale *sale)
{
    struct row *row;
    for (uint32_t i = sale->segments; (row = row_of_segment(sale->sku, i)); i++) {
        enum db_result result = session_lock(ledger, row);
        if (result != DB_OK)
            return result;
        txn_change(ledger->txn, row)->there = false;
    }
    return DB_OK;
}

static enum db_result reset_body(struct ledger *ledger, void *context)
{
    struct beginning *beginning = context;
    beginning->reset->held = 0;
    enum db_result result = lock_sale(ledger, beginning);
    if (result == DB_OK)
        result = write_key(ledger, beginning);
    if (result == DB_OK)
        result = read_held(ledger, beginning);
    if (result == DB_OK)
        result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    struct version *version = txn_change(ledger->txn, beginning->row);
    uint64_t restocked = version->sale.restocked;
    version->sale = row_of(beginning);
    version->sale.restocked = restocked;
    result = note_end(ledger, beginning);
    for (uint32_t i = 0; i < beginning->sale->segments && result == DB_OK; i++)
        result = write_segment(ledger, beginning, i);
    if (result == DB_OK)
        result = delete_segments(ledger, beginning->sale);
    const struct sale_round_row end = {.round = beginning->round,
                                       .segments = beginning->sale->segments};
    if (result == DB_OK)
        result = ended_note(ledger, beginning->sale->sku, &end);
    return session_answer(ledger, result);
}

enum ledger_result ledger_reset(struct ledger *ledger, struct ledger_reset *reset,
                                struct ledger_sale *sale, struct ledger_segment *segments_out)
{
    struct beginning beginning = {.reset = reset, .sale = sale, .segments_out = segments_out};
    enum ledger_result result = session_result(session_run(ledger, reset_body, &beginning));
    if (result == LEDGER_OK) {
        sale->round = beginning.round + 1;
        sale->settings.version = beginning.version + 1;
        sale->settings.counting = false;
        sale->sold = 0;
    }
    story("    ledger: reset to round %u: %s", beginning.round + 1,
          result == LEDGER_OK        ? "done"
          : result == LEDGER_UNKNOWN ? "unknown"
                                     : "not done");
    return result;
}

struct reset_question {
    const char *sku, *key;
    struct ledger_sale *sale_out;
    char *request_out;
    bool *retired_out;
    bool found;
};

static enum db_result find_reset(struct ledger *ledger, void *context)
{
    struct reset_question *question = context;
    const struct row *row = row_of_reset(question->sku, question->key);
    const struct version *seen = row ? row_seen(row, ledger->txn) : NULL;
    question->found = seen && seen->there;
    if (!question->found)
        return DB_OK;
    const struct sale_row *sale = &seen->reset.sale;
    *question->sale_out = (struct ledger_sale){.round = sale->round,
                                               .total = sale->total,
                                               .segments = sale->segments,
                                               .settings = sale->settings};
    question->sale_out->settings.version = 0;
    strcpy(question->sale_out->sku, question->sku);
    strcpy(question->request_out, seen->reset.request);
    const struct version *retired = ended_last(question->sku, true, ledger->txn);
    *question->retired_out = retired && retired->sale_round.round >= sale->round;
    return DB_OK;
}

enum ledger_result ledger_reset_find(struct ledger *ledger, const char *sku, const char *key,
                                     struct ledger_sale *sale_out,
                                     char request_out[LEDGER_RESET_TEXT_MAX], bool *retired_out)
{
    struct reset_question question = {sku, key, sale_out, request_out, retired_out, false};
    if (session_read(ledger, find_reset, &question, false) != LEDGER_OK)
        return LEDGER_FAILED;
    return question.found ? LEDGER_OK : LEDGER_NO;
}

/* ---- the orders of a round ---- */

static bool is_of(const struct version *order, const char *sku, uint32_t round)
{
    return order->order.round == round && strcmp(order->sku, sku) == 0;
}

/* The newest order with an id below `below` (0: any); NULL when there is no such order. */
static struct row *newest(const struct ledger *ledger, uint64_t below)
{
    struct row *found = NULL, *row;
    for (size_t i = 0; (row = table_row(TABLE_ORDER, i)); i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        if (seen->there && (below == 0 || seen->order.order_id < below) &&
            (!found || seen->order.order_id > row_seen(found, ledger->txn)->order.order_id))
            found = row;
    }
    return found;
}

static void count_orders(const struct ledger *ledger, const char *sku, uint32_t round,
                         uint32_t rows, struct ledger_round_use *use)
{
    uint64_t below = use->next_id;
    uint32_t passed = 0;
    const struct row *row;
    use->next_id = 0;
    for (; passed < rows && (row = newest(ledger, below)); passed++) {
        const struct version *seen = row_seen(row, ledger->txn);
        use->next_id = below = seen->order.order_id;
        if (!is_of(seen, sku, round))
            continue;
        use->reserved += seen->order.status == LEDGER_RESERVED;
        use->paid += seen->order.status == LEDGER_PAID;
        use->units += version_held(seen);
    }
    use->all_read = passed < rows;
}

struct count_question {
    const char *sku;
    uint32_t round, rows;
    struct ledger_round_use *use;
};

static enum db_result find_use(struct ledger *ledger, void *context)
{
    const struct count_question *question = context;
    count_orders(ledger, question->sku, question->round, question->rows, question->use);
    return DB_OK;
}

enum ledger_result ledger_round_count(struct ledger *ledger, const char *sku, uint32_t round,
                                      uint32_t rows, struct ledger_round_use *use)
{
    struct ledger_round_use more = *use;
    struct count_question question = {sku, round, rows, &more};
    if (session_read(ledger, find_use, &question, false) != LEDGER_OK)
        return LEDGER_FAILED;
    *use = more;
    return LEDGER_OK;
}

struct end_question {
    char *sku_out;
    uint32_t *round_out;
    bool found;
};

static enum db_result find_end(struct ledger *ledger, void *context)
{
    struct end_question *question = context;
    const struct row *row;
    question->found = false;
    for (size_t i = 0; (row = table_row(TABLE_ROUND_END, i)); i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        int order = question->found ? strcmp(seen->sku, question->sku_out) : -1;
        if (!seen->there || order > 0 ||
            (order == 0 && seen->round_end.round > *question->round_out))
            continue;
        question->found = true;
        strcpy(question->sku_out, seen->sku);
        *question->round_out = seen->round_end.round;
    }
    return DB_OK;
}

enum ledger_result ledger_round_end_find(struct ledger *ledger, char sku_out[IDENTIFIER_SIZE],
                                         uint32_t *round_out)
{
    struct end_question question = {sku_out, round_out, false};
    if (session_read(ledger, find_end, &question, false) != LEDGER_OK)
        return LEDGER_FAILED;
    return question.found ? LEDGER_OK : LEDGER_NO;
}

struct step {
    const char *sku;
    uint32_t round, rows, ended;
    bool done;
    struct row *row;
    struct ledger_round_use piece;
};

static enum db_result lock_end(struct ledger *ledger, struct step *step)
{
    enum db_result result = session_send(ledger, false);
    if (result != DB_OK)
        return result;
    step->row = row_of_round_end(step->sku, step->round);
    result = session_answer(ledger, step->row ? session_lock(ledger, step->row) : DB_OK);
    return result == DB_OK && (!step->row || !step->row->now.there) ? DB_NO : result;
}

static enum db_result count_piece(struct ledger *ledger, struct step *step)
{
    enum db_result result = session_send(ledger, false);
    if (result != DB_OK)
        return result;
    step->piece = (struct ledger_round_use){.next_id = step->row->now.round_end.next_id};
    count_orders(ledger, step->sku, step->round, step->rows, &step->piece);
    return session_answer(ledger, DB_OK);
}

static enum db_result end_piece(struct ledger *ledger, struct step *step)
{
    struct event_lines lines = {.type = LEDGER_EVENT_EXPIRED};
    uint64_t below = step->row->now.round_end.next_id;
    struct row *row;
    enum db_result result = session_send(ledger, true);
    step->ended = 0;
    if (result != DB_OK)
        return result;
    while (result == DB_OK && (row = newest(ledger, below))) {
        const struct version *seen = row_seen(row, ledger->txn);
        below = seen->order.order_id;
        if (below < step->piece.next_id)
            break;
        if (!is_of(seen, step->sku, step->round) || seen->order.status != LEDGER_RESERVED)
            continue;
        result = session_lock(ledger, row);
        if (result != DB_OK || !version_may(&row->now, LEDGER_EXPIRED, ledger->txn))
            continue;
        order_becomes(ledger->txn, row, LEDGER_EXPIRED);
        event_add(&lines, &row->now, NULL);
        step->ended++;
    }
    if (result == DB_OK) {
        event_write(ledger, &lines);
        struct version *version = txn_change(ledger->txn, step->row);
        struct round_end_row *end = &version->round_end;
        end->units -= step->piece.units < end->units ? step->piece.units : end->units;
        end->next_id = step->piece.next_id;
        step->done = step->piece.all_read || end->units == 0;
        version->there = !step->done;
    }
    sql_free(&lines.text);
    return session_answer(ledger, result);
}

static enum db_result step_body(struct ledger *ledger, void *context)
{
    struct step *step = context;
    enum db_result result = lock_end(ledger, step);
    if (result == DB_OK)
        result = count_piece(ledger, step);
    return result == DB_OK ? end_piece(ledger, step) : result;
}

enum ledger_result ledger_round_end_step(struct ledger *ledger, const char *sku, uint32_t round,
                                         uint32_t rows, uint32_t *ended_out)
{
    struct step step = {.sku = sku, .round = round, .rows = rows};
    enum ledger_result result = session_result(session_run(ledger, step_body, &step));
    *ended_out = result == LEDGER_OK ? step.ended : 0;
    story("    ledger: %u orders of round %u end", *ended_out, round);
    return result == LEDGER_OK && step.done ? LEDGER_NO : result;
}

/* The end of a sale in the simulated ledger: sql/sales/sales.h, ledger_round.h. */
#include "sql/sales/sales.h"

#include <assert.h>
#include <string.h>

#include "sql/sales/ledger_round.h"
#include "test/simulate/ledger/ledger_retire.h"
#include "test/simulate/ledger/ledger_session.h"
#include "test/simulate/ledger/ledger_text.h"
#include "test/simulate/story.h"

/* ---- the rounds that have ended ---- */

const struct version *ended_last(const char *sku, bool retired_only, const struct txn *txn)
{
    const struct version *last = NULL;
    const struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_SALE_ROUND, i)); i++) {
        const struct version *seen = row_seen(row, txn);
        if (!seen->there || strcmp(seen->sku, sku) != 0 ||
            (retired_only && !seen->sale_round.retired))
            continue;
        if (!last || seen->sale_round.round > last->sale_round.round)
            last = seen;
    }
    return last;
}

static uint64_t greatest_order(const struct txn *txn)
{
    uint64_t greatest = 0;
    const struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_ORDER, i)); i++) {
        const struct version *seen = row_seen(row, txn);
        if (seen->there && seen->order.order_id > greatest)
            greatest = seen->order.order_id;
    }
    return greatest;
}

enum db_result ended_note(struct ledger *ledger, const char *sku, const struct sale_round_row *end)
{
    const struct row_key key = {.sku = sku, .round = end->round};
    struct row *row;
    enum db_result result = session_lock_key(ledger, TABLE_SALE_ROUND, &key, &row);
    if (result != DB_OK || row->now.there)
        return result;
    struct version *version = txn_change(ledger->txn, row);
    version->there = true;
    text_copy(version->sku, sku);
    version->sale_round = *end;
    version->sale_round.last_id = greatest_order(ledger->txn);
    return DB_OK;
}

/* ---- what holds units ---- */

struct counting {
    const struct ledger_sale *sale;
    struct ledger_held *held;
};

static void sum_segments(const struct ledger *ledger, const char *sku, uint64_t *fences_out,
                         uint64_t *sold_out)
{
    const struct row *row;
    const struct row *sale = row_of_sale(sku);
    *fences_out = sale ? row_seen(sale, ledger->txn)->sale.unpaid : 0;
    *sold_out = 0;
    for (size_t i = 0; (row = table_row(TABLE_SEGMENT, i)); i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        if (!seen->there || strcmp(seen->sku, sku) != 0)
            continue;
        *fences_out += seen->segment.fence;
        *sold_out += seen->segment.sold;
    }
}

static enum db_result read_sums(struct ledger *ledger, void *context)
{
    const struct counting *counting = context;
    sum_segments(ledger, counting->sale->sku, &counting->held->fences, &counting->held->sold);
    return DB_OK;
}

static enum db_result read_begin(struct ledger *ledger, void *context)
{
    const struct counting *counting = context;
    const struct row *row;
    counting->held->done = counting->held->sold == 0;
    counting->held->begun = true;
    for (size_t i = 0; (row = table_row(TABLE_ROUND_END, i)); i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        if (seen->there && strcmp(seen->sku, counting->sale->sku) == 0)
            counting->held->begun = false;
    }
    return DB_OK;
}

/* All orders that there are, in one piece: the ids are made without clocks. */
static enum db_result read_orders(struct ledger *ledger, void *context)
{
    const struct counting *counting = context;
    struct ledger_held *held = counting->held;
    const struct row *row;
    held->reserved = held->paid = held->units = 0;
    for (size_t i = 0; (row = table_row(TABLE_ORDER, i)); i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        if (!seen->there || seen->order.round != held->round || strcmp(seen->sku, held->sku) != 0)
            continue;
        held->reserved += seen->order.status == LEDGER_RESERVED;
        held->paid += seen->order.status == LEDGER_PAID;
        held->units += version_held(seen);
    }
    held->done = true;
    return DB_OK;
}

static enum ledger_result begin_count(struct ledger *ledger, const struct counting *counting)
{
    *counting->held = (struct ledger_held){.round = counting->sale->round, .from_zero = true};
    strcpy(counting->held->sku, counting->sale->sku);
    if (session_read(ledger, read_sums, (void *)counting, false) != LEDGER_OK ||
        session_read(ledger, read_begin, (void *)counting, false) != LEDGER_OK)
        return LEDGER_FAILED;
    return counting->held->begun ? LEDGER_OK : LEDGER_NO;
}

enum ledger_result ledger_held_count(struct ledger *ledger, const struct ledger_sale *sale,
                                     struct ledger_held *held)
{
    const struct counting counting = {sale, held};
    bool same = held->begun && held->round == sale->round && strcmp(held->sku, sale->sku) == 0;
    enum ledger_result result = same ? LEDGER_OK : begin_count(ledger, &counting);
    if (result != LEDGER_OK || held->done)
        return result;
    struct ledger_held more = *held; /* an answer that is lost counts nothing */
    struct counting piece = {sale, &more};
    if (session_read(ledger, read_orders, &piece, false) != LEDGER_OK)
        return LEDGER_FAILED;
    *held = more;
    return LEDGER_OK;
}

/* ---- retire ---- */

struct retirement {
    const struct ledger_sale *sale;
    struct ledger_held *held;
    struct row *row;
    bool refunds_elsewhere;
};

static enum db_result lock_sale(struct ledger *ledger, struct retirement *retirement)
{
    enum db_result result = session_send(ledger, false);
    if (result != DB_OK)
        return result;
    retirement->row = row_of_sale(retirement->sale->sku);
    if (retirement->row)
        result = session_lock(ledger, retirement->row);
    result = session_answer(ledger, result);
    if (result != DB_OK)
        return result;
    const struct row *row = retirement->row;
    return row && row->now.there && row->now.sale.round == retirement->sale->round ? DB_OK : DB_NO;
}

static enum db_result compare_segments(struct ledger *ledger, const struct retirement *retirement)
{
    uint64_t fences = 0, sold = 0;
    struct row *row;
    enum db_result result = session_send(ledger, false);
    if (result != DB_OK)
        return result;
    for (uint32_t i = 0; (row = row_of_segment(retirement->sale->sku, i)) && result == DB_OK; i++)
        result = session_lock(ledger, row);
    sum_segments(ledger, retirement->sale->sku, &fences, &sold);
    result = session_answer(ledger, result);
    bool same = fences == retirement->held->fences && sold == retirement->held->sold;
    return result == DB_OK && !same ? DB_NO : result;
}

static enum db_result count_refunds(struct ledger *ledger, const struct retirement *retirement)
{
    const struct row *row;
    enum db_result result = session_send(ledger, false);
    if (result != DB_OK)
        return result;
    for (size_t i = 0; (row = table_row(TABLE_DUE, i)); i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        retirement->held->refunds_due += seen->there && !seen->payment.elsewhere &&
                                         strcmp(seen->sku, retirement->sale->sku) == 0;
    }
    result = session_answer(ledger, DB_OK);
    if (result != DB_OK)
        retirement->held->refunds_due = 0;
    return retirement->held->refunds_due > 0 ? DB_NO : result;
}

static enum db_result leave_refunds(struct ledger *ledger, const char *sku)
{
    enum db_result result = DB_OK;
    struct row *row;
    for (size_t i = 0; result == DB_OK && (row = table_row(TABLE_DUE, i)); i++) {
        if (!row->now.there || row->now.payment.elsewhere || strcmp(row->now.sku, sku) != 0)
            continue;
        result = session_lock(ledger, row);
        if (result == DB_OK && row->now.there)
            txn_change(ledger->txn, row)->payment.elsewhere = true;
    }
    return result;
}

static enum db_result delete_rows(struct ledger *ledger, const struct retirement *retirement)
{
    const char *sku = retirement->sale->sku;
    struct row *row, *count = row_of_count(sku);
    enum db_result result = DB_OK;
    for (uint32_t i = 0; (row = row_of_segment(sku, i)) && result == DB_OK; i++) {
        if (row->owner != ledger->txn)
            result = session_lock(ledger, row);
        if (result == DB_OK && row->now.there)
            txn_change(ledger->txn, row)->there = false;
    }
    if (result == DB_OK && count)
        result = session_lock(ledger, count);
    if (result == DB_OK && count)
        txn_change(ledger->txn, count)->there = false;
    if (result == DB_OK)
        txn_change(ledger->txn, retirement->row)->there = false;
    return result;
}

static enum db_result retire_body(struct ledger *ledger, void *context)
{
    struct retirement *retirement = context;
    const struct ledger_sale *sale = retirement->sale;
    retirement->held->refunds_due = 0;
    enum db_result result = lock_sale(ledger, retirement);
    if (result == DB_OK)
        result = compare_segments(ledger, retirement);
    if (result == DB_OK && !retirement->refunds_elsewhere)
        result = count_refunds(ledger, retirement);
    if (result == DB_OK)
        result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    const struct sale_round_row end = {.round = sale->round,
                                       .segments = sale->segments,
                                       .retired = true,
                                       .restocked = retirement->row->now.sale.restocked};
    if (retirement->refunds_elsewhere)
        result = leave_refunds(ledger, sale->sku);
    if (result == DB_OK)
        result = ended_note(ledger, sale->sku, &end);
    if (result == DB_OK)
        result = delete_rows(ledger, retirement);
    return session_answer(ledger, result);
}

enum ledger_result ledger_retire(struct ledger *ledger, const struct ledger_sale *sale,
                                 struct ledger_held *held, bool refunds_elsewhere)
{
    struct retirement retirement = {
        .sale = sale, .held = held, .refunds_elsewhere = refunds_elsewhere};
    assert(held->done && held->reserved == 0);
    enum ledger_result result = session_result(session_run(ledger, retire_body, &retirement));
    story("    ledger: %s is retired in round %u: %s", sale->sku, sale->round,
          result == LEDGER_OK        ? "done"
          : result == LEDGER_UNKNOWN ? "unknown"
                                     : "not done");
    return result;
}

struct retired_question {
    const char *sku;
    uint32_t *segments_out;
    bool found;
};

static enum db_result find_retired(struct ledger *ledger, void *context)
{
    struct retired_question *question = context;
    const struct version *last = ended_last(question->sku, true, ledger->txn);
    question->found = last != NULL;
    if (last)
        *question->segments_out = last->sale_round.segments;
    return DB_OK;
}

enum ledger_result ledger_retired_find(struct ledger *ledger, const char *sku,
                                       uint32_t *segments_out)
{
    struct retired_question question = {sku, segments_out, false};
    if (session_read(ledger, find_retired, &question, false) != LEDGER_OK)
        return LEDGER_FAILED;
    return question.found ? LEDGER_OK : LEDGER_NO;
}

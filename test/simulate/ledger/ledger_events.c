/* The feed of events in the simulated ledger: sql/events/events.h. */
#include "test/simulate/ledger/ledger_events.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sql/events/event_line.h"
#include "test/simulate/ledger/ledger_session.h"
#include "test/simulate/ledger/ledger_text.h"
#include "test/simulate/story.h"
#include "test/simulate/tally.h"

static const struct row_key the_feed;

void ledger_events_write(struct ledger *ledger, bool on)
{
    ledger->events = on;
}

/* ---- writing ---- */

/* An accepted order tells what it does not share with the one before. */
static void add_accepted(struct event_lines *lines, const struct version *order)
{
    const struct order_row *row = &order->order, *last = &lines->last.order;
    bool less = row->order_id < last->order_id;
    sql_append(&lines->text, "\n", lines->count > 0);
    if (lines->count++ == 0 || row->round != last->round || row->expires_ms != last->expires_ms ||
        strcmp(order->sku, lines->last.sku) != 0)
        sql_printf(&lines->text, "= %-s %u %ju\n", order->sku, row->round,
                   (uintmax_t)row->expires_ms);
    sql_printf(&lines->text, less ? "a -%ju %u %-s" : "a %ju %u %-s",
               less ? last->order_id - row->order_id : row->order_id - last->order_id, row->qty,
               order->user_id);
    lines->last = *order;
}

void event_add(struct event_lines *lines, const struct version *order, const char *ref)
{
    static const char letters[] = {
#define LETTER(id, letter, name) letter,
        LEDGER_EVENTS(LETTER)
#undef LETTER
    };
    const struct order_row *row = &order->order;
    const char letter[] = {letters[lines->type], '\0'};
    if (lines->type == LEDGER_EVENT_ACCEPTED) {
        add_accepted(lines, order);
        return;
    }
    uint32_t version = lines->type == LEDGER_EVENT_REFUND_DUE ? 0 : row->version;
    sql_printf(&lines->text, lines->count++ == 0 ? "%-s" : "\n%-s", letter);
    sql_printf(&lines->text, " %ju %u %u %ju %-s %-s %u", row->order_id, version, row->qty,
               (uintmax_t)row->expires_ms, order->user_id, order->sku, row->round);
    if (ref && ref[0] != '\0')
        sql_printf(&lines->text, " %-s", ref);
}

/* A row's body lies where the row does. */
static void write_batch(struct ledger *ledger, struct sql_text *text, size_t count,
                        uint64_t position)
{
    struct row *row = row_make(TABLE_EVENT);
    txn_take(ledger->txn, row);
    struct version *version = txn_change(ledger->txn, row);
    sql_append(text, "", 1);
    version->there = true;
    version->event = (struct event_row){.id = table_event_id(),
                                        .position = position,
                                        .events = (uint32_t)count,
                                        .written_ms = ledger_server_ms(),
                                        .body = strdup(text->text)};
}

void event_write(struct ledger *ledger, struct event_lines *lines)
{
    if (ledger->events && lines->count > 0)
        write_batch(ledger, &lines->text, lines->count, 0);
    sql_free(&lines->text);
}

/* ---- reading ---- */

static struct ledger_event_batch batch_of(const struct version *version)
{
    const struct event_row *row = &version->event;
    return (struct ledger_event_batch){.id = row->id,
                                       .position = row->position,
                                       .events = row->events,
                                       .written_ms = row->written_ms,
                                       .body = row->body,
                                       .length = strlen(row->body)};
}

/* What a call has found: the batches from `position` on and before `end`; from 0 on and before 1
 * those that have no position. */
struct found {
    uint64_t position, end;
    struct ledger_event_batch batches[LEDGER_EVENTS_BATCHES_MAX];
    size_t count;
};

/* Keeps the first ones. */
static void add_found(struct found *found, const struct version *version)
{
    size_t at = found->count;
    for (; at > 0 && found->batches[at - 1].position > version->event.position; at--)
        if (at < LEDGER_EVENTS_BATCHES_MAX)
            found->batches[at] = found->batches[at - 1];
    if (at == LEDGER_EVENTS_BATCHES_MAX)
        return;
    found->batches[at] = batch_of(version);
    found->count += found->count < LEDGER_EVENTS_BATCHES_MAX;
}

/* The rows lie in the order of their ids. */
static enum db_result find_batches(struct ledger *ledger, void *context)
{
    struct found *found = context;
    const struct row *row;
    uint64_t from = 0; /* the batch that the position is in, or the last one before it */
    found->count = 0;
    for (size_t i = 0; (row = table_row(TABLE_EVENT, i)); i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        if (seen->there && seen->event.position <= found->position && seen->event.position > from)
            from = seen->event.position;
    }
    for (size_t i = 0; (row = table_row(TABLE_EVENT, i)); i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        bool is_published = seen->event.position > 0;
        if (seen->there && is_published == (found->position > 0) && seen->event.position >= from &&
            seen->event.position < found->end)
            add_found(found, seen);
    }
    return DB_OK;
}

static enum ledger_result visit_found(struct ledger *ledger, struct found *found,
                                      ledger_event_visit *visit, void *context)
{
    if (session_read(ledger, find_batches, found, false) != LEDGER_OK)
        return LEDGER_FAILED;
    for (size_t i = 0; i < found->count; i++) {
        if (found->position == 0)
            found->batches[i].body = "", found->batches[i].length = 0;
        visit(&found->batches[i], context);
    }
    return LEDGER_OK;
}

enum ledger_result ledger_events_pending(struct ledger *ledger, ledger_event_visit *visit,
                                         void *context)
{
    struct found found = {.end = 1};
    return visit_found(ledger, &found, visit, context);
}

enum ledger_result ledger_events_read(struct ledger *ledger, uint64_t position, uint32_t events,
                                      ledger_event_visit *visit, void *context)
{
    struct found found = {.position = position, .end = position + events};
    return visit_found(ledger, &found, visit, context);
}

static enum db_result read_bounds(struct ledger *ledger, void *context)
{
    struct ledger_event_bounds *bounds = context;
    const struct feed_row *feed = &row_seen(row_find(TABLE_FEED, &the_feed), ledger->txn)->feed;
    const struct row *row;
    *bounds = (struct ledger_event_bounds){
        .oldest = feed->oldest, .next = feed->next, .now_ms = ledger_server_ms()};
    for (size_t i = 0; (row = table_row(TABLE_EVENT, i)); i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        const struct event_row *event = &seen->event;
        if (seen->there && event->position == 0 && bounds->waiting_ms == 0)
            bounds->waiting_ms = event->written_ms;
        if (seen->there && event->position > 0 && event->position + event->events == feed->next)
            bounds->last_ms = event->written_ms;
    }
    return DB_OK;
}

enum ledger_result ledger_events_bounds(struct ledger *ledger,
                                        struct ledger_event_bounds *bounds_out)
{
    return session_read(ledger, read_bounds, bounds_out, false);
}

/* ---- sales ---- */

struct sales {
    struct ledger_event_sale *sales;
    size_t max, count;
};

static const struct version *published(const char *sku, const struct txn *txn)
{
    const struct row *row = row_find(TABLE_EVENT_SALE, &(struct row_key){.sku = sku});
    const struct version *seen = row ? row_seen(row, txn) : NULL;
    return seen && seen->there ? seen : NULL;
}

static enum db_result find_sales(struct ledger *ledger, void *context)
{
    const struct sales *asked = context;
    for (size_t i = 0; i < asked->count; i++) {
        struct ledger_event_sale *sale = &asked->sales[i];
        const struct version *seen = published(sale->sku, ledger->txn);
        sale->round = seen ? seen->event_sale.round : 0;
        sale->settings_version = seen ? seen->event_sale.settings_version : 0;
        sale->sold_out = seen && seen->event_sale.sold_out;
    }
    return DB_OK;
}

enum ledger_result ledger_event_sales(struct ledger *ledger, struct ledger_event_sale *sales,
                                      size_t count)
{
    struct sales asked = {.sales = sales, .count = count};
    return session_read(ledger, find_sales, &asked, false);
}

static enum db_result find_retired(struct ledger *ledger, void *context)
{
    struct sales *retired = context;
    const struct row *row;
    retired->count = 0;
    for (size_t i = 0; (row = table_row(TABLE_EVENT_SALE, i)) && retired->count < retired->max;
         i++) {
        const struct version *seen = row_seen(row, ledger->txn);
        const struct row *sale = seen->there ? row_of_sale(seen->sku) : NULL;
        if (!seen->there || seen->event_sale.round == 0 ||
            (sale && row_seen(sale, ledger->txn)->there))
            continue;
        retired->sales[retired->count] = (struct ledger_event_sale){.round = 0};
        strcpy(retired->sales[retired->count++].sku, seen->sku);
    }
    return DB_OK;
}

enum ledger_result ledger_event_sales_retired(struct ledger *ledger, size_t max,
                                              struct ledger_event_sale *sales_out,
                                              size_t *count_out)
{
    struct sales retired = {.sales = sales_out, .max = max};
    enum ledger_result result = session_read(ledger, find_retired, &retired, false);
    *count_out = result == LEDGER_OK ? retired.count : 0;
    return result;
}

/* ---- placing ---- */

/* Moves the feed on, if its guards allow that. */
static enum db_result move_feed(struct ledger *ledger, const struct ledger_placing *placing)
{
    struct row *row = row_find(TABLE_FEED, &the_feed);
    enum db_result result = session_lock(ledger, row);
    const struct feed_row *feed = &row->now.feed;
    if (result != DB_OK || feed->next != placing->next)
        return result == DB_OK ? DB_NO : result;
    struct feed_row change = {.next = feed->next + placing->sale_event_count,
                              .oldest = feed->oldest};
    for (size_t i = 0; i < placing->batch_count; i++)
        change.next += placing->batches[i].events;
    txn_change(ledger->txn, row)->feed = change;
    return DB_OK;
}

/* A server that lost what was not on its disk may have given the id again, to other events. */
static enum db_result place_batch(struct ledger *ledger, const struct ledger_event_batch *batch,
                                  uint64_t position)
{
    struct row *row = row_find(TABLE_EVENT, &(struct row_key){.order_id = batch->id});
    enum db_result result = row ? session_lock(ledger, row) : DB_NO;
    if (result != DB_OK || !row->now.there || row->now.event.position != 0 ||
        row->now.event.events != batch->events)
        return result == DB_OK ? DB_NO : result;
    txn_change(ledger->txn, row)->event.position = position;
    return DB_OK;
}

static enum db_result note_sale(struct ledger *ledger, const struct ledger_event_sale *sale)
{
    struct row *row;
    const struct row_key key = {.sku = sale->sku};
    enum db_result result = session_lock_key(ledger, TABLE_EVENT_SALE, &key, &row);
    if (result != DB_OK)
        return result;
    struct version *version = txn_change(ledger->txn, row);
    const struct event_sale_row *before = &version->event_sale;
    bool same = version->there && before->settings_version == sale->settings_version;
    uint32_t quiet = same ? before->quiet : 0;
    version->there = true;
    text_copy(version->sku, sale->sku);
    version->event_sale =
        (struct event_sale_row){sale->round, sale->settings_version, sale->sold_out, quiet};
    return DB_OK;
}

static void write_sales(struct ledger *ledger, const struct ledger_placing *placing,
                        uint64_t position)
{
    struct sql_text text = {0};
    for (size_t i = 0; i < placing->sale_event_count; i++) {
        sql_append(&text, "\n", i > 0);
        event_text_sale(&text, &placing->sale_events[i]);
    }
    if (placing->sale_event_count > 0)
        write_batch(ledger, &text, placing->sale_event_count, position);
    sql_free(&text);
}

static enum db_result place_body(struct ledger *ledger, void *context)
{
    const struct ledger_placing *placing = context;
    uint64_t position = placing->next;
    enum db_result result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    result = move_feed(ledger, placing);
    for (size_t i = 0; i < placing->batch_count && result == DB_OK; i++) {
        result = place_batch(ledger, &placing->batches[i], position);
        position += placing->batches[i].events;
    }
    if (result == DB_OK)
        write_sales(ledger, placing, position);
    for (size_t i = 0; i < placing->sale_count && result == DB_OK; i++)
        result = note_sale(ledger, &placing->sales[i]);
    return session_answer(ledger, result);
}

enum ledger_result ledger_events_place(struct ledger *ledger, const struct ledger_placing *placing)
{
    enum ledger_result result = session_result(session_run(ledger, place_body, (void *)placing));
    story("    ledger: %zu batches get positions from %llu on: %s", placing->batch_count,
          (unsigned long long)placing->next,
          result == LEDGER_OK        ? "done"
          : result == LEDGER_NO      ? "refused"
          : result == LEDGER_UNKNOWN ? "unknown"
                                     : "failed");
    if (result == LEDGER_NO)
        tally("a publisher was refused");
    return result;
}

/* A schedule is shorter than an hour. */
enum ledger_result ledger_events_purge(struct ledger *ledger, unsigned hours, unsigned batches,
                                       uint32_t *deleted_out)
{
    (void)hours, (void)batches;
    *deleted_out = 0;
    return ledger_ping(ledger);
}

/* Checks the feed of events: after each commit, when a reader is told, and as a whole at the end.
 *
 * The feed, read from its first position on, has every version that an order was ever committed in,
 * once and in order, unless a server that died has lost it; and every payment that was due. */
#include "test/simulate/promise_events.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/events/event_text.h"
#include "service/events/feed_page.h"
#include "sql/events/events.h"
#include "test/simulate/ledger/ledger_table.h"
#include "test/simulate/promise.h"
#include "test/simulate/scene.h"
#include "test/simulate/story.h"
#include "test/simulate/tally.h"

enum { VERSIONS_MAX = 64, TOLD_MAX = 4096 };

/* How a commit has left an order. One commit may make several changes: then only the last of these
 * versions is known. */
struct past {
    bool known;
    enum ledger_event_type type;
    uint32_t qty;
    int64_t expires_ms;
};

static struct {
    struct past pasts[TABLE_ROWS_MAX][VERSIONS_MAX]; /* by the order's row and its version */
    struct ledger_event told[TOLD_MAX];              /* by position, from 1 on */
    uint64_t told_count;
    uint32_t read[TABLE_ROWS_MAX]; /* the version of each order that was told last */
} now;

void promise_events_begin(void)
{
    now.told_count = 0;
    memset(now.read, 0, sizeof now.read);
}

static size_t number_of(const struct row *row)
{
    return (size_t)(row - table_row(row->table, 0));
}

static const struct version *on_disk(const struct row *row)
{
    return row->on_disk ? &row->was : &row->disk;
}

static const struct feed_row *feed_now(void)
{
    return &table_row(TABLE_FEED, 0)->was.feed;
}

/* ---- what a commit does ---- */

static enum ledger_event_type type_of(const struct version *before, const struct version *after)
{
    static const enum ledger_event_type ends[LEDGER_STATUSES] = {
        [LEDGER_RESERVED] = LEDGER_EVENT_UNPAID,     [LEDGER_PAID] = LEDGER_EVENT_PAID,
        [LEDGER_CANCELLED] = LEDGER_EVENT_CANCELLED, [LEDGER_EXPIRED] = LEDGER_EVENT_EXPIRED,
        [LEDGER_REFUNDED] = LEDGER_EVENT_REFUNDED,
    };
    if (!before->there)
        return LEDGER_EVENT_ACCEPTED;
    if (before->order.status == after->order.status)
        return LEDGER_EVENT_CHANGED;
    bool retaken = before->order.status == LEDGER_EXPIRED && after->order.status == LEDGER_PAID;
    return retaken ? LEDGER_EVENT_RETAKEN : ends[after->order.status];
}

/* Each change of an order makes a new version of it. */
static void note_order(const struct row *row)
{
    const struct version *before = &row->before, *after = &row->was;
    uint32_t first = before->there ? before->order.version : 0, last = after->order.version;
    struct order_row same = after->order;
    struct past *pasts = now.pasts[number_of(row)];
    same.version = first;
    bool changed = !before->there || memcmp(&same, &before->order, sizeof same) != 0;
    if (changed ? last <= first : last < first)
        promise_break("order %llu changes from version %u to version %u",
                      (unsigned long long)after->order.order_id, first, last);
    assert(last < VERSIONS_MAX);
    for (uint32_t version = first + 1; version < last; version++)
        pasts[version].known = false;
    if (last != first) /* also when another payment pays it, and nothing else changes */
        pasts[last] =
            (struct past){true, type_of(before, after), after->order.qty, after->order.expires_ms};
}

static void check_batch(const struct row *row, uint64_t *published)
{
    const struct event_row *before = &row->before.event, *after = &row->was.event;
    uint64_t position = row->before.there ? before->position : 0;
    if (position != 0 && after->position != position)
        promise_break("the batch at position %llu is published again, at %llu",
                      (unsigned long long)position, (unsigned long long)after->position);
    if (position == 0 && after->position != 0)
        *published += after->events;
}

bool promise_events_commit(const struct txn *txn)
{
    bool any = false;
    uint64_t published = 0, moved = 0;
    for (size_t i = 0; i < txn->count; i++) {
        const struct row *row = txn->rows[i];
        if (row->table == TABLE_ORDER && row->was.there)
            note_order(row);
        if (row->table == TABLE_FEED)
            moved = row->was.feed.next - row->before.feed.next;
        if (row->table != TABLE_EVENT || !row->was.there)
            continue;
        check_batch(row, &published);
        any = true;
    }
    if (published != moved)
        promise_break("%llu events are published, and the feed moves on by %llu",
                      (unsigned long long)published, (unsigned long long)moved);
    return any;
}

/* ---- what readers are told ---- */

static struct ledger_event_batch batch_of(const struct event_row *row)
{
    return (struct ledger_event_batch){
        .events = row->events, .body = row->body, .length = strlen(row->body)};
}

/* Finds the event at a position. False: it would not outlive the server. */
static bool find_on_disk(uint64_t position, struct ledger_event *event_out, int64_t *written_ms_out)
{
    const struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_EVENT, i)); i++) {
        const struct version *disk = on_disk(row);
        if (!disk->there || disk->event.position == 0 || disk->event.position > position ||
            position - disk->event.position >= disk->event.events)
            continue;
        const struct ledger_event_batch batch = batch_of(&disk->event);
        const char *at = batch.body;
        *written_ms_out = disk->event.written_ms;
        memset(event_out, 0, sizeof *event_out);
        for (uint64_t passed = disk->event.position; ledger_event_next(&batch, &at, event_out);
             passed++)
            if (passed == position)
                return true;
    }
    return false;
}

uint64_t promise_feed_mark(uint64_t position)
{
    struct ledger_event event;
    int64_t written_ms = 0;
    return find_on_disk(position, &event, &written_ms) ? feed_mark(written_ms, 0) : 0;
}

/* Checks the next event of an order, whose versions so far are counted in `read`. */
static void check_version(const struct ledger_event *event, uint32_t read[TABLE_ROWS_MAX])
{
    const struct row *row = row_of_order(event->order_id);
    unsigned long long id = event->order_id;
    if (event->type == LEDGER_EVENT_REFUND_DUE)
        return;
    if (!row || !row->was.there || row->was.order.version < event->version) {
        promise_break("the feed has version %u of order %llu, which the ledger has not",
                      event->version, id);
        return;
    }
    uint32_t *last = &read[number_of(row)];
    if (event->version != *last + 1)
        promise_break("the feed has version %u of order %llu behind version %u", event->version, id,
                      *last);
    *last = event->version;
    const struct past *past = &now.pasts[number_of(row)][event->version];
    if (past->known && (past->type != event->type || past->qty != event->qty ||
                        past->expires_ms != event->expires_ms))
        promise_break("version %u of order %llu is not what the feed says: %s", event->version, id,
                      ledger_event_name(event->type));
}

void promise_event(uint64_t position, const struct ledger_event *event)
{
    unsigned long long at = position;
    story("  event %llu: %s, order %llu version %u", at, ledger_event_name(event->type),
          (unsigned long long)event->order_id, event->version);
    struct ledger_event there;
    int64_t written_ms = 0;
    if (!find_on_disk(position, &there, &written_ms) || memcmp(&there, event, sizeof there) != 0)
        promise_break("event %llu is told, and is not on the disk", at);
    if (position > now.told_count + 1)
        promise_break("event %llu is told behind event %llu", at,
                      (unsigned long long)now.told_count);
    if (position <= now.told_count) {
        if (memcmp(&now.told[position - 1], event, sizeof *event) != 0)
            promise_break("event %llu is told as another one than before", at);
        return;
    }
    assert(now.told_count < TOLD_MAX);
    now.told[now.told_count++] = *event;
    tally("event told");
    if (ledger_event_of_order(event->type))
        check_version(event, now.read);
}

/* The answer is the text of what is on the disk. */
uint64_t promise_feed(uint64_t after, const char *text, size_t length)
{
    char *told = calloc(1, length + 1);
    memcpy(told, text, length);
    const char *tail = strstr(told, "],\"next\":\"");
    uint64_t last = tail ? strtoull(tail + strlen("],\"next\":\""), NULL, 10) : 0;
    if (last < after || last - after > TOLD_MAX) {
        promise_break("a reader who wants the events behind %llu is told: %s",
                      (unsigned long long)after, told);
        last = after;
    }
    char *expected = malloc((size_t)(last - after + 1) * EVENT_TEXT_MAX);
    char *at = stpcpy(expected, "{\"events\":[");
    for (uint64_t position = after + 1; position <= last && !promise_broken(); position++) {
        struct ledger_event event = {.round = 0};
        struct event_writer writer;
        int64_t written_ms = 0;
        find_on_disk(position, &event, &written_ms);
        promise_event(position, &event);
        event_writer_init(&writer, 0, written_ms);
        at = position > after + 1 ? stpcpy(at, ",") : at;
        at = event_text(at, &writer, &event, position);
    }
    sprintf(at, "],\"next\":\"%llu.%llu\"}\n", (unsigned long long)last,
            (unsigned long long)promise_feed_mark(last));
    if (!promise_broken() && strcmp(told, expected) != 0)
        promise_break("a reader is told %s, and the ledger has %s", told, expected);
    free(told);
    free(expected);
    return last;
}

static bool is_sale_told(const char *sku)
{
    const struct row *told = row_find(TABLE_EVENT_SALE, &(struct row_key){.sku = sku});
    const struct row *sale = row_of_sale(sku);
    const struct event_sale_row none = {.round = 0};
    const struct event_sale_row *last = told && told->was.there ? &told->was.event_sale : &none;
    if (!sale || !sale->was.there)
        return last->round == 0;
    return last->round == sale->was.sale.round &&
           last->settings_version == sale->was.sale.settings.version &&
           last->sold_out == (promise_left(sku) == 0);
}

bool promise_events_told(bool sales)
{
    const struct row *row;
    for (int i = 0; i < scene.sales && sales; i++)
        if (!is_sale_told(SCENE_SKU(i)))
            return false;
    for (size_t i = 0; (row = table_row(TABLE_EVENT, i)); i++)
        if (row->was.there && row->was.event.position == 0)
            return false;
    return feed_now()->next == now.told_count + 1;
}

/* ---- the whole feed ---- */

struct replay {
    uint64_t position; /* of the next event */
    uint32_t read[TABLE_ROWS_MAX];
    uint32_t due[TABLE_ROWS_MAX];                      /* events of each payment's row */
    struct ledger_event last_of_sale[SCENE_SALES_MAX]; /* that told its settings */
};

static void replay_event(struct replay *replay, const struct ledger_event *event)
{
    const struct row *payment = event->type == LEDGER_EVENT_REFUND_DUE
                                    ? row_of_payment(event->order_id, event->payment_ref)
                                    : NULL;
    if (ledger_event_of_order(event->type))
        check_version(event, replay->read);
    else if (event->type == LEDGER_EVENT_SALE_CHANGED)
        replay->last_of_sale[SCENE_SALE_OF(event->sku)] = *event;
    if (payment)
        replay->due[number_of(payment)]++;
    if (memcmp(&now.told[replay->position - 1], event, sizeof *event) != 0)
        promise_break("event %llu is not what readers were told",
                      (unsigned long long)replay->position);
    replay->position++;
}

static int compare_positions(const void *a, const void *b)
{
    uint64_t one = (*(const struct event_row *const *)a)->position;
    uint64_t other = (*(const struct event_row *const *)b)->position;
    return (one > other) - (one < other);
}

static void replay_feed(struct replay *replay)
{
    const struct event_row *batches[TABLE_ROWS_MAX];
    size_t count = 0;
    const struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_EVENT, i)); i++)
        if (row->was.there)
            batches[count++] = &row->was.event;
    qsort(batches, count, sizeof *batches, compare_positions);
    for (size_t i = 0; i < count && !promise_broken(); i++) {
        const struct ledger_event_batch batch = batch_of(batches[i]);
        const char *at = batch.body;
        struct ledger_event event;
        memset(&event, 0, sizeof event);
        if (batches[i]->position != replay->position)
            promise_break("the feed goes on at position %llu, not %llu",
                          (unsigned long long)batches[i]->position,
                          (unsigned long long)replay->position);
        while (!promise_broken() && ledger_event_next(&batch, &at, &event))
            replay_event(replay, &event);
    }
}

/* Every version of every order, and every payment that was due, is in the feed. */
static void check_complete(const struct replay *replay)
{
    const struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_ORDER, i)); i++)
        if (row->was.there && replay->read[i] != row->was.order.version)
            promise_break("order %llu is in version %u, and the feed has it in version %u",
                          (unsigned long long)row->was.order.order_id, row->was.order.version,
                          replay->read[i]);
    for (size_t i = 0; (row = table_row(TABLE_PAYMENT, i)); i++) {
        const struct payment_row *payment = &row->was.payment;
        bool was_due =
            payment->outcome == LEDGER_ALREADY_PAID || payment->outcome == LEDGER_TOO_LATE;
        if (row->was.there && replay->due[i] != was_due)
            promise_break("payment %s of order %llu is %u times in the feed as due", row->was.key,
                          (unsigned long long)payment->order_id, replay->due[i]);
    }
    for (size_t i = 0; (row = table_row(TABLE_EVENT_SALE, i)); i++) {
        const struct ledger_event *last = &replay->last_of_sale[SCENE_SALE_OF(row->was.sku)];
        const struct event_sale_row *sale = &row->was.event_sale;
        if (row->was.there &&
            (last->round != sale->round ||
             (sale->round != 0 && last->settings_version + sale->quiet != sale->settings_version)))
            promise_break("the feed has %s in round %u, version %u, not in round %u, version %u",
                          row->was.sku, last->round, last->settings_version, sale->round,
                          sale->settings_version);
    }
}

void promise_events_end(void)
{
    struct replay replay = {.position = 1};
    const struct row *first = table_row(TABLE_EVENT, 0);
    if (!scene.events && first && first->was.there)
        promise_break("events are off, and there are some");
    if (!scene.events)
        return;
    replay_feed(&replay);
    if (!promise_broken() && replay.position != feed_now()->next)
        promise_break("the feed ends at position %llu, not %llu",
                      (unsigned long long)replay.position, (unsigned long long)feed_now()->next);
    if (!promise_broken())
        check_complete(&replay);
}

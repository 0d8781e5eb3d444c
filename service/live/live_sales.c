/* The sales that the live page shows: their figures from the ledger, their segments from Redis.
 *
 * why_a_budget: a page must not cost more than it is worth, however many sales and segments there
 * are. The sales of most interest come first; where their segments would be more than
 * LIVE_SEGMENTS_ALL together, further sales are shown without segments, and not read anew but as
 * the observer has last seen them. */
#include "service/live/live_sales.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lock/redis/pipeline.h"
#include "lua/command.h"
#include "service/workers/observer.h"
#include "sql/sales/sales.h"
#include "sql/ledger/ledger.h"

static_assert((int)LIVE_SALES_MAX <= (int)LEDGER_STOCK_SKUS_MAX, "one statement finds all sales");
static_assert((int)LIVE_SALES_MAX <= (int)SALE_FIGURES_SHOWN_MAX, "the observer knows as many");

static const double ns_per_s = 1e9;

/* A segment as the ledger has it, and as Redis does. */
struct segment {
    uint32_t segment, total, sold;
    int64_t left; /* in Redis; -1: not known */
    bool locked, dirty;
};

struct shown {
    struct ledger_sale sale;
    int64_t read_ns; /* when the ledger said so */
    double sold_per_s;
    size_t first, count; /* of the segments */
    bool read;           /* with its segments */
};

struct live_sales {
    struct service *service;
    struct shown shown[LIVE_SALES_MAX]; /* in the order in which they are shown */
    size_t count;
    size_t more;
    struct segment segments[LIVE_SEGMENTS_ALL];
    size_t segment_count;
    bool redis_known; /* what Redis says of the segments is there */
};

struct live_sales *live_sales_open(struct service *service)
{
    struct live_sales *sales = calloc(1, sizeof *sales);
    if (!sales)
        abort();
    sales->service = service;
    return sales;
}

void live_sales_close(struct live_sales **sales)
{
    free(*sales);
    *sales = NULL;
}

/* ---- which ---- */

enum interest { RUNNING, COMING, OVER };

static enum interest interest_of(const struct ledger_sale *sale, int64_t now_ms)
{
    if (sale->settings.starts_ms > now_ms)
        return COMING;
    return sale_figures_open_at(sale, now_ms) && sale->sold < sale->total ? RUNNING : OVER;
}

struct candidate {
    const struct ledger_sale *sale;
    enum interest interest;
};

/* Running ones, then coming ones in the order of their starts. */
static int by_interest(const void *a, const void *b)
{
    const struct candidate *one = a, *other = b;
    int64_t one_ms = one->sale->settings.starts_ms, other_ms = other->sale->settings.starts_ms;
    if (one->interest != other->interest)
        return one->interest < other->interest ? -1 : 1;
    if (one->interest == COMING && one_ms != other_ms)
        return one_ms < other_ms ? -1 : 1;
    return strcmp(one->sale->sku, other->sale->sku);
}

/* What was known of the sale's round before. */
static const struct shown *find_before(const struct live_sales *before,
                                       const struct ledger_sale *sale)
{
    for (size_t i = 0; i < before->count; i++)
        if (strcmp(before->shown[i].sale.sku, sale->sku) == 0 &&
            before->shown[i].sale.round == sale->round)
            return &before->shown[i];
    return NULL;
}

/* Chooses the sales out of those that the observer knows. */
static void choose(struct live_sales *sales, const struct sale_figures_view *view)
{
    struct candidate all[SALE_FIGURES_SHOWN_MAX];
    for (size_t i = 0; i < view->shown; i++) {
        const struct ledger_sale *sale = &view->sales[i];
        int64_t now_ms = synced_clock_ms(&sales->service->clock);
        all[i] = (struct candidate){sale, interest_of(sale, now_ms)};
    }
    qsort(all, view->shown, sizeof *all, by_interest);
    sales->count = view->shown < LIVE_SALES_MAX ? view->shown : LIVE_SALES_MAX;
    sales->more = view->known - sales->count;
    for (size_t i = 0; i < sales->count; i++)
        sales->shown[i] = (struct shown){.sale = *all[i].sale};
}

/* ---- the ledger ---- */

struct reading {
    struct live_sales *sales;
    const struct live_sales *before;
    int64_t now_ns;
};

static void note_rate(struct shown *shown, const struct shown *before, int64_t now_ns)
{
    shown->read_ns = now_ns;
    if (!before || before->read_ns == 0)
        return;
    double passed_s = (double)(now_ns - before->read_ns) / ns_per_s;
    double sold = (double)shown->sale.sold - before->sale.sold;
    shown->sold_per_s = passed_s > 0 && sold > 0 ? sold / passed_s : 0; /* cancels take away */
}

static struct shown *find_shown(struct live_sales *sales, const char *sku)
{
    for (size_t i = 0; i < sales->count; i++)
        if (strcmp(sales->shown[i].sale.sku, sku) == 0)
            return &sales->shown[i];
    return NULL;
}

static void note_sale(const struct ledger_sale *sale, const struct ledger_segment *rows,
                      size_t count, void *context)
{
    struct reading *reading = context;
    struct live_sales *sales = reading->sales;
    struct shown *shown = find_shown(sales, sale->sku);
    size_t room = LIVE_SEGMENTS_ALL - sales->segment_count;
    if (!shown)
        return;
    shown->sale = *sale;
    shown->read = true;
    shown->first = sales->segment_count;
    shown->count = count < LIVE_SEGMENTS_MAX ? count : LIVE_SEGMENTS_MAX;
    if (shown->count > room) /* it has more of them since the observer has seen it */
        shown->count = room;
    for (size_t i = 0; i < shown->count; i++)
        sales->segments[sales->segment_count++] = (struct segment){.segment = rows[i].segment,
                                                                   .total = rows[i].capacity,
                                                                   .sold = rows[i].sold,
                                                                   .left = -1};
    note_rate(shown, find_before(reading->before, sale), reading->now_ns);
}

/* Marks the sales that are read anew, within the budget. */
static void choose_read(const struct live_sales *sales, bool wanted_out[LIVE_SALES_MAX])
{
    size_t segments = 0;
    for (size_t i = 0; i < sales->count; i++) {
        uint32_t more = sales->shown[i].sale.segments;
        wanted_out[i] = segments + more <= LIVE_SEGMENTS_ALL; /* a smaller one may still fit */
        segments += wanted_out[i] ? more : 0;
    }
}

/* False when the ledger did not answer. */
static bool read_ledger(struct live_sales *sales, const struct live_sales *before,
                        struct ledger *ledger, int64_t now_ns)
{
    const char *skus[LIVE_SALES_MAX];
    bool wanted[LIVE_SALES_MAX];
    size_t asked = 0;
    struct reading reading = {sales, before, now_ns};
    choose_read(sales, wanted);
    for (size_t i = 0; i < sales->count; i++)
        if (wanted[i])
            skus[asked++] = sales->shown[i].sale.sku;
    enum ledger_result result =
        asked == 0 ? LEDGER_OK : ledger_stock_find(ledger, skus, asked, note_sale, &reading);
    return result == LEDGER_OK || result == LEDGER_DAMAGED;
}

/* ---- Redis ---- */

struct keys {
    char segment[SCRIPT_KEY_MAX], lock[SCRIPT_KEY_MAX];
};

static void post_segment(const struct shown *shown, const struct segment *segment,
                         struct keys *keys, struct command *out)
{
    char name[IDENTIFIER_SIZE + 16];
    snprintf(name, sizeof name, "%s:%u", shown->sale.sku, segment->segment);
    lock_redis_key(STOCK_PREFIX, name, "segment", keys->segment);
    lock_redis_key(STOCK_PREFIX, name, "lock", keys->lock);
    out[0] =
        (struct command){.argc = 5, .argv = {"HMGET", keys->segment, "available", "round", "open"}};
    out[1] = (struct command){.argc = 2, .argv = {"EXISTS", keys->lock}};
}

/* A segment is dirty when Redis' numbers are of no use: missing, of another round, or those of a
 * holder that has gone without settling them. */
static void note_segment(const struct shown *shown, struct segment *segment,
                         const struct command *answers)
{
    const char *available = command_text(&answers[0], 0, NULL);
    const char *open = command_text(&answers[0], 2, NULL);
    segment->locked = command_int(&answers[1], -1) > 0;
    bool present = available && command_int(&answers[0], 1) == (int64_t)shown->sale.round;
    segment->left = present ? command_int(&answers[0], 0) : -1;
    segment->dirty = !segment->locked && (!present || (open && open[0] != '\0'));
}

/* One pipeline, of whole segments: all of one sale are asked together. */
static bool read_redis(struct live_sales *sales, struct redis *redis)
{
    size_t count = 2 * sales->segment_count;
    struct command *commands = calloc(count + 1, sizeof *commands);
    struct keys *keys = calloc(sales->segment_count + 1, sizeof *keys);
    bool answered = true;
    if (!commands || !keys)
        abort();
    for (size_t i = 0; i < sales->count; i++)
        for (size_t s = sales->shown[i].first; s < sales->shown[i].first + sales->shown[i].count;
             s++)
            post_segment(&sales->shown[i], &sales->segments[s], &keys[s], &commands[2 * s]);
    if (count > 0)
        command_run(redis, commands, count);
    for (size_t i = 0; i < count; i++)
        answered = answered && commands[i].result == REDIS_ANSWERED;
    for (size_t i = 0; answered && i < sales->count; i++)
        for (size_t s = sales->shown[i].first; s < sales->shown[i].first + sales->shown[i].count;
             s++)
            note_segment(&sales->shown[i], &sales->segments[s], &commands[2 * s]);
    command_clear(commands, count);
    free(commands);
    free(keys);
    return answered;
}

/* Without counters in Redis the ledger alone knows. */
static bool uses_redis(const struct service *service)
{
    return strcmp(service->config.strategy, "database") != 0;
}

static void take_from_ledger(struct live_sales *sales)
{
    for (size_t i = 0; i < sales->segment_count; i++)
        sales->segments[i].left = (int64_t)sales->segments[i].total - sales->segments[i].sold;
}

void live_sales_turn(struct live_sales *sales, struct ledger *ledger, struct redis *redis,
                     int64_t now_ns, bool *ledger_out, bool *redis_out)
{
    struct sale_figures_view *view = malloc(sizeof *view);
    struct live_sales *next = live_sales_open(sales->service);
    if (!view)
        abort();
    observer_sales(sales->service->observer, view);
    choose(next, view);
    free(view);
    *redis_out = true;
    *ledger_out = ledger && read_ledger(next, sales, ledger, now_ns);
    if (*ledger_out)
        *sales = *next;
    live_sales_close(&next);
    sales->redis_known = true;
    if (!uses_redis(sales->service))
        take_from_ledger(sales);
    else
        sales->redis_known = *redis_out = redis && read_redis(sales, redis);
}

/* ---- as JSON ---- */

static const char *state_word(const struct ledger_sale *sale, int64_t now_ms)
{
    const struct ledger_settings *settings = &sale->settings;
    if (settings->ends_ms != 0 && now_ms >= settings->ends_ms)
        return "ended";
    if (settings->starts_ms > now_ms)
        return "scheduled";
    if (sale->sold >= sale->total)
        return "sold_out";
    return settings->counting ? "counting" : settings->paused ? "paused" : "open";
}

static json_t *time_json(int64_t ms)
{
    char text[LEDGER_TIME_SIZE];
    if (ms == 0)
        return json_null();
    ledger_time_format(ms, text);
    return json_string(text);
}

static json_t *segment_json(const struct segment *segment, bool redis_known)
{
    if (!redis_known)
        return json_pack("{s:i, s:i, s:n, s:n, s:n}", "total", (int)segment->total, "sold",
                         (int)segment->sold, "left", "locked", "dirty");
    return json_pack("{s:i, s:i, s:o, s:b, s:b}", "total", (int)segment->total, "sold",
                     (int)segment->sold, "left",
                     segment->left < 0 ? json_null() : json_integer(segment->left), "locked",
                     segment->locked, "dirty", segment->dirty);
}

static json_t *segments_json(const struct live_sales *sales, const struct shown *shown)
{
    json_t *list = json_array();
    for (size_t i = 0; i < shown->count; i++)
        json_array_append_new(list,
                              segment_json(&sales->segments[shown->first + i], sales->redis_known));
    return list;
}

static json_t *sale_json_of(const struct live_sales *sales, const struct shown *shown)
{
    const struct ledger_sale *sale = &shown->sale;
    const struct ledger_settings *settings = &sale->settings;
    int64_t now_ms = synced_clock_ms(&sales->service->clock);
    json_t *object = json_pack("{s:s, s:i, s:s, s:i, s:i, s:i, s:b}", "sku", sale->sku, "round",
                               (int)sale->round, "state", state_word(sale, now_ms), "total",
                               (int)sale->total, "sold", (int)sale->sold, "left",
                               (int)(sale->total - sale->sold), "paused", settings->paused);
    json_object_set_new(object, "starts_at", time_json(settings->starts_ms));
    json_object_set_new(object, "ends_at", time_json(settings->ends_ms));
    json_object_set_new(object, "per_user_limit", json_integer(settings->per_user_limit));
    json_object_set_new(object, "pay_within_s", json_integer(settings->pay_within_s));
    json_object_set_new(object, "sold_per_s", json_real(round(shown->sold_per_s * 10) / 10));
    json_object_set_new(object, "segments", segments_json(sales, shown));
    json_object_set_new(object, "segments_more",
                        json_integer((json_int_t)sale->segments - (json_int_t)shown->count));
    return object;
}

void live_sales_add(const struct live_sales *sales, json_t *object)
{
    json_t *list = json_array();
    for (size_t i = 0; i < sales->count; i++)
        json_array_append_new(list, sale_json_of(sales, &sales->shown[i]));
    json_object_set_new(object, "sales", list);
    json_object_set_new(object, "sales_more", json_integer((json_int_t)sales->more));
}

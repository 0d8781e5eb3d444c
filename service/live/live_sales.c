/* The sales as the ledger has them, and their segments in Redis.
 *
 * why_a_budget: a page must stay cheap, however many sales and segments there are. The most
 * relevant sales come first; beyond LIVE_SEGMENTS_ALL segments further sales are shown without
 * segments, as the last page of sales had them. */
#include "service/live/live_sales.h"

#include <assert.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "lock/redis/pipeline.h"
#include "lua/command.h"
#include "stock/sale_cache.h"
#include "stock/stock.h"

static_assert((int)LIVE_SALES_MAX <= (int)LEDGER_STOCK_SKUS_MAX, "one statement finds all sales");
static_assert((int)LIVE_FIGURES_MAX <= (int)LEDGER_ORDERS_MAX, "one query finds all of them");

enum { SOON_MS = 3600 * 1000 }; /* a sale that starts within this time counts as open */

static const double ns_per_s = 1e9;

/* A segment as the ledger and Redis have it. */
struct segment {
    uint32_t segment, total, sold;
    int64_t left; /* in Redis; -1: unknown */
    bool locked, dirty;
};

enum interest { RUNNING, COMING, OVER };

struct known_sale {
    struct ledger_sale sale;
    int64_t changed_ms; /* when its row or sold units last changed */
    bool seen;          /* in this pass over all sales */
    bool open;          /* or about to open */
    bool chosen;        /* for the figures */
    enum interest interest;
    struct {
        int64_t read_ns; /* when its segments were last read; 0: never */
        uint32_t round, sold;
        double sold_per_s;
    } rate;
    uint32_t told_round, told_sold; /* at the last live_sales_moved */
    size_t first, count;            /* its segments; count 0: none */
};

struct live_sales {
    bool with_redis;
    struct known_sale *known; /* SALES_MAX places, sorted by sku */
    size_t count;
    char after[IDENTIFIER_SIZE]; /* the last sale of the previous page */
    bool page_is_new;            /* read in the last turn */

    struct known_sale *listed[LIVE_SALES_MAX]; /* on the page, in this order, until the next turn */
    size_t listed_count;
    struct segment segments[LIVE_SEGMENTS_ALL];
    size_t segment_count;
    bool redis_known; /* Redis' values of the segments are known */

    pthread_mutex_t mutex; /* guards the members below */
    struct live_figures figures;
};

struct live_sales *live_sales_open(bool with_redis)
{
    struct live_sales *sales = memory_must(calloc(1, sizeof *sales));
    sales->known = memory_must(calloc(SALES_MAX, sizeof *sales->known));
    sales->with_redis = with_redis;
    pthread_mutex_init(&sales->mutex, NULL);
    return sales;
}

void live_sales_close(struct live_sales **sales)
{
    if (*sales) {
        pthread_mutex_destroy(&(*sales)->mutex);
        free((*sales)->known);
    }
    free(*sales);
    *sales = NULL;
}

bool live_sale_open_at(const struct ledger_sale *sale, int64_t now_ms)
{
    const struct ledger_settings *settings = &sale->settings;
    return settings->starts_ms <= now_ms && (settings->ends_ms == 0 || now_ms < settings->ends_ms);
}

/* ---- the known sales ---- */

/* The place of the first sale with this sku or a greater one. */
static size_t find_place(const struct live_sales *sales, const char *sku)
{
    size_t low = 0, high = sales->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(sales->known[middle].sale.sku, sku) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static struct known_sale *find(const struct live_sales *sales, const char *sku)
{
    size_t place = find_place(sales, sku);
    bool found = place < sales->count && strcmp(sales->known[place].sale.sku, sku) == 0;
    return found ? &sales->known[place] : NULL;
}

static void update(struct known_sale *known, const struct ledger_sale *sale, int64_t now_ms)
{
    if (known->sale.sold != sale->sold || known->sale.round != sale->round ||
        known->sale.settings.version != sale->settings.version)
        known->changed_ms = now_ms;
    known->sale = *sale;
}

static void note_of_page(struct live_sales *sales, const struct ledger_sale *sale, int64_t now_ms)
{
    struct known_sale *known = find(sales, sale->sku);
    if (!known) {
        size_t place = find_place(sales, sale->sku);
        if (sales->count == SALES_MAX)
            return;
        known = &sales->known[place];
        memmove(known + 1, known, (sales->count++ - place) * sizeof *known);
        *known = (struct known_sale){.sale = *sale, .changed_ms = now_ms};
    }
    update(known, sale, now_ms);
    known->seen = true;
}

/* Ends a pass: sales not seen in it are retired. */
static void forget_unseen(struct live_sales *sales)
{
    size_t kept = 0;
    for (size_t i = 0; i < sales->count; i++) {
        if (!sales->known[i].seen)
            continue;
        sales->known[kept] = sales->known[i];
        sales->known[kept++].seen = false;
    }
    sales->count = kept;
}

static bool read_page(struct live_sales *sales, struct ledger *ledger, int64_t now_ms)
{
    struct ledger_sale page[LIVE_PAGE_MAX];
    size_t count = 0;
    if (ledger_sale_list(ledger, sales->after, LIVE_PAGE_MAX, page, &count) != LEDGER_OK)
        return false;
    for (size_t i = 0; i < count; i++)
        note_of_page(sales, &page[i], now_ms);
    if (count == LIVE_PAGE_MAX) {
        memcpy(sales->after, page[count - 1].sku, IDENTIFIER_SIZE);
    } else {
        forget_unseen(sales);
        sales->after[0] = '\0';
    }
    return true;
}

/* ---- choosing the sales shown ---- */

static void note_interest(struct known_sale *known, int64_t now_ms)
{
    const struct ledger_sale *sale = &known->sale;
    bool open = live_sale_open_at(sale, now_ms);
    int64_t starts_in_ms = sale->settings.starts_ms - now_ms;
    known->open = open || (starts_in_ms > 0 && starts_in_ms < SOON_MS);
    known->interest = starts_in_ms > 0 ? COMING : open && sale->sold < sale->total ? RUNNING : OVER;
}

/* Open sales first, then the most recently changed. */
static int by_change(const void *a, const void *b)
{
    const struct known_sale *one = *(struct known_sale *const *)a;
    const struct known_sale *other = *(struct known_sale *const *)b;
    if (one->open != other->open)
        return one->open ? -1 : 1;
    if (one->changed_ms != other->changed_ms)
        return one->changed_ms > other->changed_ms ? -1 : 1;
    return strcmp(one->sale.sku, other->sale.sku);
}

/* Running sales, then coming ones by start. */
static int by_interest(const void *a, const void *b)
{
    const struct known_sale *one = *(struct known_sale *const *)a;
    const struct known_sale *other = *(struct known_sale *const *)b;
    int64_t one_ms = one->sale.settings.starts_ms, other_ms = other->sale.settings.starts_ms;
    if (one->interest != other->interest)
        return one->interest < other->interest ? -1 : 1;
    if (one->interest == COMING && one_ms != other_ms)
        return one_ms < other_ms ? -1 : 1;
    return strcmp(one->sale.sku, other->sale.sku);
}

/* Chooses the sales for the figures, and among them those for the page. */
static void choose(struct live_sales *sales, int64_t now_ms)
{
    struct known_sale **all = memory_must(calloc(sales->count + 1, sizeof *all));
    for (size_t i = 0; i < sales->count; i++) {
        all[i] = &sales->known[i];
        all[i]->chosen = false;
        note_interest(all[i], now_ms);
    }
    qsort(all, sales->count, sizeof *all, by_change);
    size_t chosen = sales->count < LIVE_FIGURES_MAX ? sales->count : LIVE_FIGURES_MAX;
    for (size_t i = 0; i < chosen; i++)
        all[i]->chosen = true;
    qsort(all, chosen, sizeof *all, by_interest);
    sales->listed_count = chosen < LIVE_SALES_MAX ? chosen : LIVE_SALES_MAX;
    memcpy(sales->listed, all, sales->listed_count * sizeof *all);
    free(all);
}

/* ---- the ledger ---- */

struct reading {
    struct live_sales *sales;
    int64_t now_ms;
    bool answered;
};

static void note_chosen(const struct ledger_sale *sale, void *context)
{
    struct reading *reading = context;
    struct known_sale *known = find(reading->sales, sale->sku);
    if (known)
        update(known, sale, reading->now_ms);
}

/* Reads the chosen sales, unless the page has just held all sales. */
static bool read_chosen(struct live_sales *sales, struct ledger *ledger, int64_t now_ms)
{
    const char *skus[LIVE_FIGURES_MAX];
    size_t count = 0;
    struct reading reading = {.sales = sales, .now_ms = now_ms};
    if (sales->count < LIVE_PAGE_MAX)
        return true;
    for (size_t i = 0; i < sales->count; i++)
        if (sales->known[i].chosen)
            skus[count++] = sales->known[i].sale.sku;
    enum ledger_result result = ledger_sales_find(ledger, skus, count, note_chosen, &reading);
    return result == LEDGER_OK || result == LEDGER_DAMAGED;
}

static void note_rate(struct known_sale *known)
{
    const struct ledger_sale *sale = &known->sale;
    int64_t now_ns = clock_now_ns();
    double passed_s = (double)(now_ns - known->rate.read_ns) / ns_per_s, per_s = 0;
    if (known->rate.read_ns != 0 && known->rate.round == sale->round && passed_s > 0 &&
        sale->sold > known->rate.sold) /* cancels lower it */
        per_s = (double)(sale->sold - known->rate.sold) / passed_s;
    known->rate.read_ns = now_ns;
    known->rate.round = sale->round;
    known->rate.sold = sale->sold;
    known->rate.sold_per_s = per_s;
}

/* Drops the previous segments, once the ledger has answered. */
static void forget_segments(struct live_sales *sales)
{
    for (size_t i = 0; i < sales->count; i++)
        sales->known[i].count = 0;
    sales->segment_count = 0;
}

static void note_segments(const struct ledger_sale *sale, const struct ledger_segment *rows,
                          size_t count, void *context)
{
    struct reading *reading = context;
    struct live_sales *sales = reading->sales;
    struct known_sale *known = find(sales, sale->sku);
    if (!reading->answered)
        forget_segments(sales);
    reading->answered = true;
    if (!known)
        return;
    size_t room = LIVE_SEGMENTS_ALL - sales->segment_count;
    update(known, sale, reading->now_ms);
    note_rate(known);
    known->first = sales->segment_count;
    known->count = count < LIVE_SEGMENTS_MAX ? count : LIVE_SEGMENTS_MAX;
    if (known->count > room) /* it has gained segments since the page was read */
        known->count = room;
    for (size_t i = 0; i < known->count; i++)
        sales->segments[sales->segment_count++] = (struct segment){.segment = rows[i].segment,
                                                                   .total = rows[i].capacity,
                                                                   .sold = rows[i].sold,
                                                                   .left = -1};
}

/* Reads the page's sales with their segments, within the budget. */
static bool read_segments(struct live_sales *sales, struct ledger *ledger, int64_t now_ms)
{
    const char *skus[LIVE_SALES_MAX];
    size_t asked = 0, segments = 0;
    struct reading reading = {.sales = sales, .now_ms = now_ms};
    enum ledger_result result = LEDGER_OK;
    for (size_t i = 0; i < sales->listed_count; i++) {
        const struct ledger_sale *sale = &sales->listed[i]->sale;
        if (segments + sale->segments > LIVE_SEGMENTS_ALL)
            continue; /* a smaller one may still fit */
        segments += sale->segments;
        skus[asked++] = sale->sku;
    }
    if (asked > 0)
        result = ledger_stock_find(ledger, skus, asked, false, note_segments, &reading);
    if (result != LEDGER_OK && result != LEDGER_DAMAGED)
        return false;
    if (!reading.answered)
        forget_segments(sales);
    return true;
}

static void publish(struct live_sales *sales, int64_t now_ms)
{
    struct live_figures *figures = &sales->figures;
    pthread_mutex_lock(&sales->mutex);
    figures->known = sales->count;
    figures->read_ms = now_ms;
    figures->shown = 0;
    for (size_t i = 0; i < sales->count; i++)
        if (sales->known[i].chosen)
            figures->sales[figures->shown++] = sales->known[i].sale;
    pthread_mutex_unlock(&sales->mutex);
}

bool live_sales_read(struct live_sales *sales, struct ledger *ledger, int64_t now_ms)
{
    bool pages = !sales->page_is_new;
    sales->page_is_new = pages && read_page(sales, ledger, now_ms);
    choose(sales, now_ms);
    if (pages && !(sales->page_is_new && read_chosen(sales, ledger, now_ms)))
        return false;
    bool answered = read_segments(sales, ledger, now_ms);
    if (pages && answered)
        publish(sales, now_ms);
    return answered;
}

void live_sales_figures(struct live_sales *sales, struct live_figures *figures_out)
{
    pthread_mutex_lock(&sales->mutex);
    *figures_out = sales->figures;
    pthread_mutex_unlock(&sales->mutex);
}

size_t live_sales_moved(struct live_sales *sales, struct live_moved moved_out[LIVE_FIGURES_MAX])
{
    size_t count = 0;
    for (size_t i = 0; i < sales->count; i++) {
        struct known_sale *known = &sales->known[i];
        const struct ledger_sale *sale = &known->sale;
        if (known->chosen && known->told_round == sale->round && sale->sold > known->told_sold)
            moved_out[count++] = (struct live_moved){sale, sale->sold - known->told_sold};
        known->told_round = sale->round;
        known->told_sold = sale->sold;
    }
    return count;
}

/* ---- Redis ---- */

/* A segment to ask Redis for, by two commands. */
struct asked {
    const struct known_sale *sale;
    struct segment *segment;
    char key[SCRIPT_KEY_MAX], lock_key[SCRIPT_KEY_MAX];
};

static void post_segment(struct asked *asked, struct command *out)
{
    char name[IDENTIFIER_SIZE + 16];
    snprintf(name, sizeof name, "%s:%u", asked->sale->sale.sku, asked->segment->segment);
    lock_redis_key(STOCK_PREFIX, name, "segment", asked->key);
    lock_redis_key(STOCK_PREFIX, name, "lock", asked->lock_key);
    out[0] =
        (struct command){.argc = 5, .argv = {"HMGET", asked->key, "available", "round", "open"}};
    out[1] = (struct command){.argc = 2, .argv = {"EXISTS", asked->lock_key}};
}

/* Posts the commands for the page's segments; returns the number of segments. */
static size_t post_segments(struct live_sales *sales, struct asked *asked, struct command *out)
{
    size_t count = 0;
    for (size_t i = 0; i < sales->listed_count; i++) {
        const struct known_sale *sale = sales->listed[i];
        for (size_t s = sale->first; s < sale->first + sale->count; s++, count++) {
            asked[count].sale = sale;
            asked[count].segment = &sales->segments[s];
            post_segment(&asked[count], &out[2 * count]);
        }
    }
    return count;
}

/* A segment is dirty when Redis' numbers are useless: missing, of another round, or left unsettled
 * by a holder that has gone. */
static void note_answers(const struct asked *asked, const struct command *answers)
{
    struct segment *segment = asked->segment;
    const char *available = command_text(&answers[0], 0, NULL);
    const char *open = command_text(&answers[0], 2, NULL);
    segment->locked = command_int(&answers[1], -1) > 0;
    bool present = available && command_int(&answers[0], 1) == (int64_t)asked->sale->sale.round;
    segment->left = present ? command_int(&answers[0], 0) : -1;
    segment->dirty = !segment->locked && (!present || (open && open[0] != '\0'));
}

static bool run_pipeline(struct live_sales *sales, struct redis *redis)
{
    struct command *commands = memory_must(calloc(2 * LIVE_SEGMENTS_ALL, sizeof *commands));
    struct asked *asked = memory_must(calloc(LIVE_SEGMENTS_ALL, sizeof *asked));
    bool answered = true;
    size_t count = post_segments(sales, asked, commands);
    if (count > 0)
        command_run(redis, commands, 2 * count);
    for (size_t i = 0; i < 2 * count; i++)
        answered = answered && commands[i].result == REDIS_ANSWERED;
    for (size_t i = 0; answered && i < count; i++)
        note_answers(&asked[i], &commands[2 * i]);
    command_clear(commands, 2 * count);
    free(commands);
    free(asked);
    return answered;
}

bool live_sales_read_redis(struct live_sales *sales, struct redis *redis)
{
    if (sales->with_redis)
        return sales->redis_known = redis && run_pipeline(sales, redis);
    for (size_t i = 0; i < sales->segment_count; i++)
        sales->segments[i].left = (int64_t)sales->segments[i].total - sales->segments[i].sold;
    sales->redis_known = true;
    return redis;
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
    bool left_known = redis_known && segment->left >= 0;
    return json_pack("{s:i, s:i, s:o, s:o, s:o}", "total", (int)segment->total, "sold",
                     (int)segment->sold, "left",
                     left_known ? json_integer(segment->left) : json_null(), "locked",
                     redis_known ? json_boolean(segment->locked) : json_null(), "dirty",
                     redis_known ? json_boolean(segment->dirty) : json_null());
}

static json_t *settings_json(const struct ledger_settings *settings)
{
    return json_pack("{s:b, s:o, s:o, s:i, s:i, s:s, s:i, s:i}", "paused", settings->paused,
                     "starts_at", time_json(settings->starts_ms), "ends_at",
                     time_json(settings->ends_ms), "per_user_limit", (int)settings->per_user_limit,
                     "pay_within_s", (int)settings->pay_within_s, "late_payment",
                     settings->refund_late ? "refund" : "retake", "hold_max_s",
                     (int)settings->hold_max_s, "grace_s", (int)settings->grace_s);
}

static json_t *sale_json_of(const struct live_sales *sales, const struct known_sale *known,
                            int64_t now_ms)
{
    const struct ledger_sale *sale = &known->sale;
    json_t *segments = json_array();
    for (size_t i = 0; i < known->count; i++)
        json_array_append_new(segments,
                              segment_json(&sales->segments[known->first + i], sales->redis_known));
    json_t *json =
        json_pack("{s:s, s:i, s:s, s:i, s:i, s:i, s:f, s:o, s:i}", "sku", sale->sku, "round",
                  (int)sale->round, "state", state_word(sale, now_ms), "total", (int)sale->total,
                  "sold", (int)sale->sold, "left", (int)(sale->total - sale->sold), "sold_per_s",
                  round(known->rate.sold_per_s * 10) / 10, "segments", segments, "segments_more",
                  (int)sale->segments - (int)known->count);
    json_object_update_new(json, settings_json(&sale->settings));
    return json;
}

void live_sales_add(const struct live_sales *sales, json_t *object, int64_t now_ms)
{
    json_t *list = json_array();
    for (size_t i = 0; i < sales->listed_count; i++)
        json_array_append_new(list, sale_json_of(sales, sales->listed[i], now_ms));
    json_object_set_new(object, "sales", list);
    json_object_set_new(object, "sales_more",
                        json_integer((json_int_t)(sales->count - sales->listed_count)));
}

/* The simulated ledger against a real server: the same random calls on both must give the same
 * answers and leave the same rows. The linker has put "model_" before the model's functions. */
#include "sql/test_server.h"

#include "base/clock.h"
#include "sql/events/events.h"
#include "sql/payments/payments.h"
#include "sql/sales/sales.h"
#include "sql/server/server.h"
#include "test/simulate/machine/arena.h"
#include "test/simulate/ledger/ledger_pay.h"
#include "test/simulate/ledger/ledger_session.h"
#include "test/simulate/ledger/ledger_table.h"

#define MODEL(function) __typeof__(function) model_##function
MODEL(ledger_open);
MODEL(ledger_commit);
MODEL(ledger_resolve);
MODEL(ledger_recover);
MODEL(ledger_confirm);
MODEL(ledger_connection);
MODEL(ledger_sale_find);
MODEL(ledger_sales_find);
MODEL(ledger_segments);
MODEL(ledger_stock_find);
MODEL(ledger_keys_find);
MODEL(ledger_orders_find);
MODEL(ledger_quotas_find);
MODEL(ledger_pay);
MODEL(ledger_payments_find);
MODEL(ledger_refund);
MODEL(ledger_extend);
MODEL(ledger_return);
MODEL(ledger_due_list);
MODEL(ledger_reset);
MODEL(ledger_reset_find);
MODEL(ledger_round_count);
MODEL(ledger_round_end_find);
MODEL(ledger_round_end_step);
MODEL(ledger_restock);
MODEL(ledger_restock_find);
MODEL(ledger_held_count);
MODEL(ledger_retire);
MODEL(ledger_retired_find);
MODEL(ledger_settings_change);
MODEL(ledger_count_find);
MODEL(ledger_count_step);
MODEL(ledger_events_write);
MODEL(ledger_events_bounds);
MODEL(ledger_events_pending);
MODEL(ledger_events_read);
MODEL(ledger_events_place);
MODEL(ledger_event_sales);
MODEL(ledger_event_sales_retired);
#undef MODEL

enum {
    CALLS_DEFAULT = 400,
    SEGMENTS_MAX = 4,
    ORDERS_MAX = 4,
    IDS_MAX = 6,
    USERS = 3,
    HOUR_S = 3600,
    HOUR_MS = 3600000,
    TEXT_SIZE = 1 << 18,
    LINES_MAX = 64,
    SALES_MAX = 4,
};

static const char *const skus[] = {"a", "b", "missing"};
static const char *const users[USERS] = {"u0", "u1", "u2"};
static struct ledger *real, *model;
static struct db *db;
static unsigned seed;
static uint64_t last_id = 100000; /* ids of as many digits sort as texts */
static char real_text[TEXT_SIZE], model_text[TEXT_SIZE];
static char call_text[1024]; /* the present call, for messages */

static uint32_t below(uint32_t bound)
{
    return (uint32_t)rand_r(&seed) % bound;
}

static bool one_in(uint32_t bound)
{
    return below(bound) == 0;
}

static const char *any_sku(void)
{
    return skus[one_in(20) ? 2 : below(2)];
}

static void __attribute__((format(printf, 1, 2))) describe(const char *format, ...)
{
    size_t used = strlen(call_text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(call_text + used, sizeof call_text - used, format, arguments);
    va_end(arguments);
}

/* ---- rows as text ---- */

static void __attribute__((format(printf, 2, 3))) add(char *text, const char *format, ...)
{
    size_t used = strlen(text);
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text + used, TEXT_SIZE - used, format, arguments);
    va_end(arguments);
}

static void dump_query(const char *name, const char *query)
{
    if (db_query(db, query, strlen(query)) != DB_OK)
        fail_msg("%s: %s", query, db_error(db));
    for (char **row = db_row(db); row; row = db_row(db))
        add(real_text, "%s %s\n", name, row[0]);
}

#define MS(column) "COALESCE(" LEDGER_MS_OF(column) ",0)"

/* The rest of SELECT CONCAT_WS(' ', for each table, in order of its key. */
static const struct {
    const char *name, *query;
} queries[] = {
    {"sale",
     "sku,round,total,segments," MS("starts_at") "," MS(
         "ends_at") ","
                    "COALESCE(per_user_limit,0),COALESCE(pay_within_s,0),paused,"
                    "refund_late,COALESCE(hold_max_s,0),COALESCE(grace_s,0),settings_version)"
                    "FROM sale ORDER BY sku"},
    {"segment", "sku,segment,round,capacity,sold,fence,settings_version)"
                "FROM stock_segment ORDER BY sku,segment"},
    {"order", "order_id,sku,round,user_id,qty,segment,status+0,"
              "COALESCE(idempotency_key,'')," MS(
                  "expires_at") ",COALESCE(ordered,0),"
                                "COALESCE(unreturned,0),COALESCE(grace_s,0),COALESCE(version,1))"
                                "FROM orders ORDER BY order_id"},
    {"key", "user_id,idempotency_key,order_id)FROM order_key ORDER BY user_id,idempotency_key"},
    {"quota", "sku,LPAD(round,3,0),user_id,units,allowed,order_ids)"
              "FROM user_quota ORDER BY sku,round,user_id"},
    {"expiry", MS("expires_at") ",first_id,last_id)FROM order_expiry ORDER BY expires_at,first_id"},
    {"count", "sku,round,counted_to IS NOT NULL,COALESCE(counted_to,0),last_id)"
              "FROM quota_count ORDER BY sku"},
    {"restock", "sku,idempotency_key,units,round)FROM restock ORDER BY sku,idempotency_key"},
    {"reset", "sku,idempotency_key,round,total,segments,request,refund_late,"
              "COALESCE(hold_max_s,0),COALESCE(grace_s,0))"
              "FROM sale_reset ORDER BY sku,idempotency_key"},
    {"end", "sku,LPAD(round,3,0),units,COALESCE(next_id,0))FROM round_end ORDER BY sku,round"},
    {"ended", "sku,LPAD(round,3,0),segments,retired,last_id)FROM sale_round ORDER BY sku,round"},
    {"payment", "order_id,payment_ref,state+0,outcome+0,refunded_at IS NOT NULL)"
                "FROM payment ORDER BY order_id,payment_ref"},
    {"due",
     "order_id,payment_ref,sku,due_at IS NULL)FROM refund_due ORDER BY order_id,payment_ref"},
    {"feed", "next,oldest)FROM event_feed"},
    {"told", "sku,round,settings_version,sold_out)FROM event_sale ORDER BY sku"},
};

static int compare_texts(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* The lines of a batch lie in the order of the orders' ids on the server, in any in the model. */
static void add_batch(char *text, uint64_t position, uint32_t events, const char *body)
{
    char *found[LINES_MAX], copy[TEXT_SIZE / 4];
    size_t count = 0;
    snprintf(copy, sizeof copy, "%s", body);
    for (char *line = strtok(copy, "\n"); line && count < LINES_MAX; line = strtok(NULL, "\n"))
        found[count++] = line;
    qsort(found, count, sizeof *found, compare_texts);
    add(text, "event %llu %u", (unsigned long long)position, events);
    for (size_t i = 0; i < count; i++)
        add(text, ", %s", found[i]);
    add(text, "\n");
}

static void dump_events(void)
{
    static const char query[] = "SELECT position,events,body FROM event_batch ORDER BY id";
    const struct row *row;
    if (db_query(db, query, strlen(query)) != DB_OK)
        fail_msg("%s: %s", query, db_error(db));
    for (char **found = db_row(db); found; found = db_row(db))
        add_batch(real_text, strtoull(found[0], NULL, 10), (uint32_t)atoi(found[1]), found[2]);
    for (size_t i = 0; (row = table_row(TABLE_EVENT, i)); i++)
        if (row->was.there)
            add_batch(model_text, row->was.event.position, row->was.event.events,
                      row->was.event.body);
}

static void dump_real(void)
{
    char text[1024];
    real_text[0] = '\0';
    for (size_t i = 0; i < sizeof queries / sizeof queries[0]; i++) {
        snprintf(text, sizeof text, "SELECT CONCAT_WS(' ',%s", queries[i].query);
        dump_query(queries[i].name, text);
    }
}

static void line_of_sale(char *line, const struct version *row)
{
    const struct ledger_settings *settings = &row->sale.settings;
    sprintf(line, "%s %u %u %u %lld %lld %u %u %d %d %u %u %u", row->sku, row->sale.round,
            row->sale.total, row->sale.segments, (long long)settings->starts_ms,
            (long long)settings->ends_ms, settings->per_user_limit, settings->pay_within_s,
            settings->paused, settings->refund_late, settings->hold_max_s, settings->grace_s,
            settings->version);
}

static void line_of_segment(char *line, const struct version *row)
{
    const struct segment_row *segment = &row->segment;
    sprintf(line, "%s %u %u %u %u %llu %u", row->sku, segment->segment, segment->round,
            segment->capacity, segment->sold, (unsigned long long)segment->fence,
            segment->settings_version);
}

static void line_of_order(char *line, const struct version *row)
{
    const struct order_row *order = &row->order;
    sprintf(line, "%llu %s %u %s %u %d %d %s %lld %u %u %u %u", (unsigned long long)order->order_id,
            row->sku, order->round, row->user_id, order->qty, order->segment,
            (int)order->status + 1, row->key, (long long)order->expires_ms, order->ordered,
            order->unreturned, order->grace_s, order->version);
}

static void line_of_key(char *line, const struct version *row)
{
    sprintf(line, "%s %s %llu", row->user_id, row->key, (unsigned long long)row->key_order_id);
}

static void line_of_quota(char *line, const struct version *row)
{
    const struct quota_row *quota = &row->quota;
    int used = sprintf(line, "%s %03u %s %u %u ", row->sku, quota->round, row->user_id,
                       quota->units, quota->allowed);
    for (size_t i = 0; i < quota->id_count; i++)
        used += sprintf(line + used, "%s%llu", i > 0 ? "," : "", (unsigned long long)quota->ids[i]);
}

static void line_of_expiry(char *line, const struct version *row)
{
    sprintf(line, "%lld %llu %llu", (long long)row->expiry.expires_ms,
            (unsigned long long)row->expiry.first_id, (unsigned long long)row->expiry.last_id);
}

static void line_of_count(char *line, const struct version *row)
{
    sprintf(line, "%s %u %d %llu %llu", row->sku, row->count.round, row->count.cleared,
            (unsigned long long)row->count.counted_to, (unsigned long long)row->count.last_id);
}

static void line_of_restock(char *line, const struct version *row)
{
    sprintf(line, "%s %s %u %u", row->sku, row->key, row->restock.units, row->restock.round);
}

static void line_of_reset(char *line, const struct version *row)
{
    const struct sale_row *sale = &row->reset.sale;
    sprintf(line, "%s %s %u %u %u %s %d %u %u", row->sku, row->key, sale->round, sale->total,
            sale->segments, row->reset.request, sale->settings.refund_late,
            sale->settings.hold_max_s, sale->settings.grace_s);
}

static void line_of_end(char *line, const struct version *row)
{
    sprintf(line, "%s %03u %u %llu", row->sku, row->round_end.round, row->round_end.units,
            (unsigned long long)row->round_end.next_id);
}

static void line_of_ended(char *line, const struct version *row)
{
    const struct sale_round_row *end = &row->sale_round;
    sprintf(line, "%s %03u %u %d %llu", row->sku, end->round, end->segments, end->retired,
            (unsigned long long)end->last_id);
}

static void line_of_payment(char *line, const struct version *row)
{
    const struct payment_row *payment = &row->payment;
    sprintf(line, "%llu %s %d %d %d", (unsigned long long)payment->order_id, row->key,
            (int)payment->state, (int)payment->outcome, payment->state == LEDGER_PAYMENT_REFUNDED);
}

static void line_of_due(char *line, const struct version *row)
{
    sprintf(line, "%llu %s %s %d", (unsigned long long)row->payment.order_id, row->key, row->sku,
            row->payment.elsewhere);
}

static void line_of_feed(char *line, const struct version *row)
{
    const struct feed_row *feed = &row->feed;
    sprintf(line, "%llu %llu", (unsigned long long)feed->next, (unsigned long long)feed->oldest);
}

static void line_of_told(char *line, const struct version *row)
{
    const struct event_sale_row *sale = &row->event_sale;
    sprintf(line, "%s %u %u %d", row->sku, sale->round, sale->settings_version, sale->sold_out);
}

static const struct {
    const char *name;
    void (*line_of)(char *line, const struct version *row);
} tables[TABLES] = {
    [TABLE_SALE] = {"sale", line_of_sale},
    [TABLE_SEGMENT] = {"segment", line_of_segment},
    [TABLE_ORDER] = {"order", line_of_order},
    [TABLE_KEY] = {"key", line_of_key},
    [TABLE_QUOTA] = {"quota", line_of_quota},
    [TABLE_EXPIRY] = {"expiry", line_of_expiry},
    [TABLE_COUNT] = {"count", line_of_count},
    [TABLE_RESTOCK] = {"restock", line_of_restock},
    [TABLE_RESET] = {"reset", line_of_reset},
    [TABLE_ROUND_END] = {"end", line_of_end},
    [TABLE_SALE_ROUND] = {"ended", line_of_ended},
    [TABLE_PAYMENT] = {"payment", line_of_payment},
    [TABLE_DUE] = {"due", line_of_due},
    [TABLE_FEED] = {"feed", line_of_feed},
    [TABLE_EVENT_SALE] = {"told", line_of_told},
};

enum { LINE_SIZE = 512 };
static char lines[TABLE_ROWS_MAX * 2][LINE_SIZE];

static int compare_lines(const void *a, const void *b)
{
    return strcmp(a, b);
}

static void dump_lines(const char *name, size_t count)
{
    qsort(lines, count, LINE_SIZE, compare_lines);
    for (size_t i = 0; i < count; i++)
        add(model_text, "%s %s\n", name, lines[i]);
}

static void dump_model(void)
{
    model_text[0] = '\0';
    for (int table = 0; table < TABLES; table++) {
        const struct row *row;
        size_t count = 0;
        for (size_t i = 0; (row = table_row((enum table)table, i)); i++)
            if (row->was.there && tables[table].name)
                tables[table].line_of(lines[count++], &row->was);
        dump_lines(tables[table].name, count);
    }
}

/* The first lines that differ, of texts with lines in the same order. */
static void compare_rows(void)
{
    dump_real();
    dump_model();
    dump_events();
    if (strcmp(real_text, model_text) == 0)
        return;
    size_t same = 0, line = 0;
    while (real_text[same] == model_text[same])
        if (real_text[same++] == '\n')
            line = same;
    fail_msg("after %s: the server has \"%.*s\", the model \"%.*s\"", call_text,
             (int)strcspn(real_text + line, "\n"), real_text + line,
             (int)strcspn(model_text + line, "\n"), model_text + line);
}

static void compare(enum ledger_result by_server, enum ledger_result by_model)
{
    if (by_server != by_model)
        fail_msg("%s: %d by the server (%s), %d by the model", call_text, by_server,
                 ledger_error(real), by_model);
}

#define COMPARE_BYTES(a, b)                                                                        \
    do                                                                                             \
        if (memcmp(&(a), &(b), sizeof(a)) != 0)                                                    \
            fail_msg("%s: the answers differ in %s", call_text, #a);                               \
    while (0)

/* ---- calls ---- */

static void begin(const char *name)
{
    call_text[0] = '\0';
    describe("%s", name);
    ledger_server_set(clock_wall_ms());
}

static size_t find_segments(const char *sku, struct ledger_segment *rows)
{
    struct ledger_segment other[LEDGER_SEGMENTS_MAX];
    size_t count = 0, other_count = 0;
    memset(rows, 0, LEDGER_SEGMENTS_MAX * sizeof *rows);
    memset(other, 0, sizeof other);
    compare(ledger_segments(real, sku, rows, &count),
            model_ledger_segments(model, sku, other, &other_count));
    assert_int_equal(count, other_count);
    assert_memory_equal(rows, other, count * sizeof *rows);
    return count;
}

static struct ledger_sale find_sale(const char *sku)
{
    struct ledger_sale sale, other;
    memset(&sale, 0, sizeof sale);
    memset(&other, 0, sizeof other);
    compare(ledger_sale_find(real, sku, &sale), model_ledger_sale_find(model, sku, &other));
    COMPARE_BYTES(sale.round, other.round);
    COMPARE_BYTES(sale.sold, other.sold);
    COMPARE_BYTES(sale.settings.version, other.settings.version);
    COMPARE_BYTES(sale.settings.counting, other.settings.counting);
    COMPARE_BYTES(sale.settings.per_user_limit, other.settings.per_user_limit);
    COMPARE_BYTES(sale.settings.ends_ms, other.settings.ends_ms);
    COMPARE_BYTES(sale.settings.refund_late, other.settings.refund_late);
    COMPARE_BYTES(sale.settings.hold_max_s, other.settings.hold_max_s);
    COMPARE_BYTES(sale.settings.grace_s, other.settings.grace_s);
    return sale;
}

static struct ledger_settings any_settings(void)
{
    int64_t now_ms = clock_wall_ms();
    return (struct ledger_settings){
        .starts_ms = one_in(3) ? now_ms : 0,
        .ends_ms = one_in(3) ? now_ms + HOUR_MS : 0,
        .per_user_limit = one_in(3)   ? below(5)
                          : one_in(2) ? 5 + below(60)
                                      : 0,
        .pay_within_s = one_in(2) ? below(100) : 0,
        .paused = one_in(4),
        .refund_late = one_in(4),
        .hold_max_s = one_in(2) ? 1 + below(2 * HOUR_S) : 0,
        .grace_s = one_in(3) ? below(2 * HOUR_S) : 0,
    };
}

/* The first version of a sku that was retired is the server's time in seconds. The model's time
 * stands still since the call began. */
static void adopt_version(const struct ledger_sale *sale, struct ledger_sale *other)
{
    struct row *row = row_of_sale(sale->sku);
    uint32_t version = sale->settings.version;
    assert_int_in_range(version - other->settings.version, 0, 1000);
    other->settings.version = row->was.sale.settings.version = version;
    for (uint32_t i = 0; (row = row_of_segment(sale->sku, i)); i++)
        row->was.segment.settings_version = version;
}

static void call_reset(void)
{
    uint64_t fences[SEGMENTS_MAX];
    char key[8] = "", request[LEDGER_RESET_TEXT_MAX], other_request[LEDGER_RESET_TEXT_MAX];
    struct ledger_segment rows[SEGMENTS_MAX], other_rows[SEGMENTS_MAX];
    const char *sku = skus[below(2)];
    begin("reset");
    struct ledger_sale sale = find_sale(sku), other;
    strcpy(sale.sku, sku);
    sale.segments = 1 + below(SEGMENTS_MAX);
    sale.total = sale.segments + below(40);
    uint32_t version = sale.settings.version + one_in(15);
    sale.settings = any_settings();
    sale.settings.version = version;
    sale.round += one_in(15);
    for (size_t i = 0; i < SEGMENTS_MAX; i++)
        fences[i] = 1 + below(200);
    if (one_in(2))
        sprintf(key, "e%u", below(20));
    memset(rows, 0, sizeof rows);
    memset(other_rows, 0, sizeof other_rows);
    other = sale;
    struct ledger_reset reset = {
        .key = key, .request = "total=1", .fences = fences, .end_round = !one_in(5)};
    struct ledger_reset other_reset = reset;
    bool created = sale.round <= 1 && find_sale(sku).round == 0;
    enum ledger_result result = ledger_reset(real, &reset, &sale, rows);
    compare(result, model_ledger_reset(model, &other_reset, &other, other_rows));
    assert_int_equal(reset.held, other_reset.held);
    if (result == LEDGER_OK) {
        if (created)
            adopt_version(&sale, &other);
        COMPARE_BYTES(sale.round, other.round);
        COMPARE_BYTES(sale.settings.version, other.settings.version);
        assert_memory_equal(rows, other_rows, sale.segments * sizeof *rows);
    }
    bool retired = false, other_retired = false;
    compare(ledger_reset_find(real, sku, key, &sale, request, &retired),
            model_ledger_reset_find(model, sku, key, &other, other_request, &other_retired));
    assert_int_equal(retired, other_retired);
}

static void call_round(void)
{
    struct ledger_round_use use = {.next_id = 0}, other_use = use;
    char sku[IDENTIFIER_SIZE] = "", other_sku[IDENTIFIER_SIZE] = "";
    uint32_t round = 0, other_round = 0, ended = 0, other_ended = 0, rows = 1 + below(20);
    begin("end a round");
    const char *which = skus[below(2)];
    uint32_t counted = find_sale(which).round - one_in(3);
    compare(ledger_round_count(real, which, counted, rows, &use),
            model_ledger_round_count(model, which, counted, rows, &other_use));
    COMPARE_BYTES(use.reserved, other_use.reserved);
    COMPARE_BYTES(use.paid, other_use.paid);
    COMPARE_BYTES(use.units, other_use.units);
    COMPARE_BYTES(use.next_id, other_use.next_id);
    COMPARE_BYTES(use.all_read, other_use.all_read);
    enum ledger_result found = ledger_round_end_find(real, sku, &round);
    compare(found, model_ledger_round_end_find(model, other_sku, &other_round));
    if (found != LEDGER_OK)
        return;
    assert_string_equal(sku, other_sku);
    assert_int_equal(round, other_round);
    compare(ledger_round_end_step(real, sku, round, rows, &ended),
            model_ledger_round_end_step(model, other_sku, other_round, rows, &other_ended));
    assert_int_equal(ended, other_ended);
}

struct commit_case {
    struct ledger_stock_update updates[SEGMENTS_MAX], other[SEGMENTS_MAX];
    size_t update_count;
    struct ledger_order orders[ORDERS_MAX];
    size_t order_count;
    bool repeats; /* an order id, which several tables refuse */
    char keys[ORDERS_MAX][8];
    char refs[ORDERS_MAX][8];
};

static uint64_t any_id(void)
{
    return last_id - below(40) + one_in(30);
}

static void any_ref(char ref[8])
{
    sprintf(ref, "p%u", below(4));
}

/* Late payments take units again, mostly of orders that have expired. */
static void fill_retaken(struct commit_case *made, size_t segments)
{
    size_t count = 0;
    for (int tries = 0; tries < 30 && count < ORDERS_MAX; tries++) {
        const struct row *row = row_of_order(any_id());
        bool wanted = row && row->was.there &&
                      (row->was.order.status == LEDGER_EXPIRED || one_in(40)) &&
                      strcmp(row->was.sku, made->orders[0].sku) == 0;
        for (size_t i = 0; i < count && wanted; i++)
            wanted = made->orders[i].order_id != row->was.order.order_id || one_in(20);
        if (!wanted)
            continue;
        any_ref(made->refs[count]);
        made->keys[count][0] = '\0';
        made->orders[count] = (struct ledger_order){
            .order_id = row->was.order.order_id,
            .sku = made->orders[0].sku,
            .user_id = users[row->was.user_id[1] - '0'],
            .key = made->keys[count],
            .round = made->orders[0].round,
            .qty = row->was.order.qty,
            .segment = below((uint32_t)segments),
            .created_ms = made->orders[0].created_ms,
            .limit = made->orders[0].limit,
            .payment_ref = made->refs[count],
        };
        count++;
    }
    if (count > 0) { /* new orders beside them, sometimes */
        made->order_count = count + (count < made->order_count && one_in(4));
        made->repeats = false;
    }
}

static void fill_orders(struct commit_case *made, const char *sku, const struct ledger_sale *sale,
                        size_t segments)
{
    int64_t now_ms = clock_wall_ms();
    uint32_t limit = sale->settings.per_user_limit;
    int64_t expires_ms = one_in(2) ? 0 : one_in(2) ? now_ms - HOUR_MS : now_ms + HOUR_MS;
    made->order_count = 1 + below(ORDERS_MAX);
    made->repeats = one_in(40);
    uint32_t grace_s = expires_ms != 0 && one_in(3) ? below(2 * HOUR_S) : 0;
    for (size_t i = 0; i < made->order_count; i++) {
        made->keys[i][0] = '\0';
        if (one_in(3))
            sprintf(made->keys[i], "k%u", below(30));
        made->orders[i] = (struct ledger_order){
            .order_id = made->repeats && i == 0 ? last_id : ++last_id,
            .sku = sku,
            .user_id = users[below(USERS)],
            .key = made->keys[i],
            .round = sale->round,
            .qty = 1 + below(3),
            .segment = below((uint32_t)segments),
            .created_ms = now_ms,
            .limit = limit,
            .expires_ms = expires_ms,
            .grace_s = grace_s,
        };
    }
    if (one_in(4))
        fill_retaken(made, segments);
}

static uint32_t units_of(const struct commit_case *made, uint32_t segment)
{
    uint32_t units = 0;
    for (size_t i = 0; i < made->order_count; i++) {
        const struct ledger_order *order = &made->orders[i];
        units += order->segment == segment ? order->qty : 0;
    }
    return units;
}

static void fill_updates(struct commit_case *made, const char *sku, const struct ledger_sale *sale,
                         const struct ledger_segment *rows, size_t count)
{
    enum ledger_guard guard = one_in(3) ? (enum ledger_guard)below(4) : LEDGER_CHAIN;
    made->update_count = 0;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t units = units_of(made, i);
        if (units == 0)
            continue;
        made->updates[made->update_count++] = (struct ledger_stock_update){
            .sku = sku,
            .segment = i,
            .round = sale->round + one_in(40),
            .units = units,
            .fence = rows[i].fence + 1 + below(3) - one_in(30),
            .settled = rows[i].fence - one_in(30),
            .settings_version = sale->settings.version + one_in(40),
            .guard = guard,
        };
    }
}

static void call_commit(void)
{
    static struct commit_case made;
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    const char *sku = skus[below(2)];
    begin("commit");
    struct ledger_sale sale = find_sale(sku);
    size_t count = find_segments(sku, rows);
    if (count == 0)
        return;
    fill_orders(&made, sku, &sale, count);
    fill_updates(&made, sku, &sale, rows, count);
    memcpy(made.other, made.updates, sizeof made.other);
    describe(" of %zu orders, %zu updates", made.order_count, made.update_count);
    enum ledger_result result =
        ledger_commit(real, made.updates, made.update_count, made.orders, made.order_count);
    enum ledger_result other =
        model_ledger_commit(model, made.other, made.update_count, made.orders, made.order_count);
    if (made.repeats) { /* which of two reasons comes first does not matter */
        assert_int_equal(result == LEDGER_OK, other == LEDGER_OK);
        return;
    }
    compare(result, other);
    for (size_t i = 0; i < made.update_count; i++)
        assert_int_equal(made.updates[i].refused, made.other[i].refused);
}

static void call_resolve(void)
{
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    const char *sku = skus[below(2)];
    begin("resolve");
    size_t count = find_segments(sku, rows);
    if (count == 0)
        return;
    uint32_t segment = below((uint32_t)count);
    struct ledger_stock_update update = {.sku = sku,
                                         .segment = segment,
                                         .fence = rows[segment].fence + 1 - below(3),
                                         .guard = (enum ledger_guard)below(4)};
    char key[8] = "";
    if (one_in(3))
        sprintf(key, "k%u", below(30));
    const struct ledger_order order = {.order_id = any_id(),
                                       .sku = sku,
                                       .round = find_sale(sku).round,
                                       .user_id = users[below(USERS)],
                                       .key = key,
                                       .payment_ref = one_in(6) ? "p" : NULL};
    compare(ledger_resolve(real, &update, &order), model_ledger_resolve(model, &update, &order));
}

static void call_recover(void)
{
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX], other[SEGMENTS_MAX + 1];
    const char *sku = any_sku();
    begin("recover");
    size_t count = find_segments(sku, rows);
    for (size_t i = 0; i < count; i++)
        rows[i].fence += 2 - below(4);
    rows[count] = (struct ledger_segment){.segment = (uint32_t)count, .fence = 1};
    size_t asked = 1 + below((uint32_t)count + 1);
    memcpy(other, rows, asked * sizeof *other);
    compare(ledger_recover(real, sku, rows, asked), model_ledger_recover(model, sku, other, asked));
    for (size_t i = 0; i < asked; i++) {
        assert_int_equal(rows[i].round, other[i].round);
        if (rows[i].round > 0)
            assert_memory_equal(&rows[i], &other[i], sizeof rows[i]);
    }
}

static void compare_records(struct ledger_record *records, struct ledger_record *others,
                            size_t count)
{
    for (size_t i = 0; i < count; i++) {
        const struct ledger_record *record = &records[i], *other = &others[i];
        assert_string_equal(record->status, other->status);
        if (record->status[0] == '\0')
            continue;
        assert_int_equal(record->order_id, other->order_id);
        assert_string_equal(record->sku, other->sku);
        assert_string_equal(record->user_id, other->user_id);
        assert_string_equal(record->key, other->key);
        assert_string_equal(record->created_at, other->created_at);
        assert_string_equal(record->expires_at, other->expires_at);
        assert_int_equal(record->payable, other->payable);
        assert_int_equal(record->round_over, other->round_over);
        assert_int_equal(record->round, other->round);
        assert_int_equal(record->qty, other->qty);
        assert_int_equal(record->ordered, other->ordered);
        assert_int_equal(record->segment, other->segment);
    }
}

static size_t name_records(struct ledger_record *records, struct ledger_record *others,
                           struct ledger_record **pointers, struct ledger_record **other_pointers)
{
    size_t count = 1 + below(IDS_MAX);
    for (size_t i = 0; i < count; i++) {
        records[i].order_id = others[i].order_id = any_id();
        pointers[i] = &records[i];
        other_pointers[i] = &others[i];
    }
    return count;
}

static void call_orders(void)
{
    struct ledger_record records[IDS_MAX], others[IDS_MAX], *pointers[IDS_MAX], *other[IDS_MAX];
    size_t count = name_records(records, others, pointers, other);
    begin("find orders");
    compare(ledger_orders_find(real, pointers, count),
            model_ledger_orders_find(model, other, count));
    compare_records(records, others, count);
}

/* The same payments for both, with names or without. */
struct payments_case {
    struct ledger_record records[IDS_MAX], others[IDS_MAX];
    struct ledger_payment payments[IDS_MAX], other_payments[IDS_MAX];
    struct ledger_record *record_list[IDS_MAX], *other_record_list[IDS_MAX];
    struct ledger_payment *list[IDS_MAX], *other_list[IDS_MAX];
    char refs[IDS_MAX][8];
    size_t count;
};

static void name_payments(struct payments_case *made, bool all_named)
{
    made->count =
        name_records(made->records, made->others, made->record_list, made->other_record_list);
    for (size_t i = 0; i < made->count; i++) {
        any_ref(made->refs[i]);
        bool named = all_named || !one_in(5);
        made->payments[i] =
            (struct ledger_payment){.ref = named       ? made->refs[i]
                                           : one_in(2) ? ""
                                                       : NULL,
                                    .late = one_in(3) ? LEDGER_LATE_NO_UNITS : LEDGER_LATE_ASKED};
        made->other_payments[i] = made->payments[i];
        made->list[i] = &made->payments[i];
        made->other_list[i] = &made->other_payments[i];
    }
}

static void compare_payments(struct payments_case *made)
{
    compare_records(made->records, made->others, made->count);
    for (size_t i = 0; i < made->count; i++) {
        const struct ledger_payment *one = &made->payments[i], *other = &made->other_payments[i];
        describe(", payment %s of %llu", one->ref ? one->ref : "-",
                 (unsigned long long)made->records[i].order_id);
        assert_string_equal(ledger_payment_state_name(one->state),
                            ledger_payment_state_name(other->state));
        assert_string_equal(ledger_payment_outcome_name(one->outcome),
                            ledger_payment_outcome_name(other->outcome));
        assert_int_equal(one->moved, other->moved);
        assert_int_equal(one->told, other->told);
        assert_int_equal(one->late, other->late);
    }
}

static void call_pay(void)
{
    static struct payments_case made;
    name_payments(&made, false);
    begin("pay");
    compare(ledger_pay(real, made.record_list, made.list, made.count),
            model_ledger_pay(model, made.other_record_list, made.other_list, made.count));
    compare_payments(&made);
}

static void call_payments(void)
{
    static struct payments_case made;
    name_payments(&made, false);
    begin("find payments");
    compare(ledger_payments_find(real, made.record_list, made.list, made.count),
            model_ledger_payments_find(model, made.other_record_list, made.other_list, made.count));
    compare_payments(&made);
}

static void call_refund(void)
{
    static struct payments_case made;
    name_payments(&made, true);
    begin("refund what is due");
    compare(ledger_refund(real, made.record_list, made.list, made.count),
            model_ledger_refund(model, made.other_record_list, made.other_list, made.count));
}

static void call_extend(void)
{
    struct ledger_record records[IDS_MAX], others[IDS_MAX], *pointers[IDS_MAX], *other[IDS_MAX];
    struct ledger_extension extensions[IDS_MAX], other_extensions[IDS_MAX], *list[IDS_MAX],
        *other_list[IDS_MAX];
    size_t count = name_records(records, others, pointers, other);
    int64_t now_ms = clock_wall_ms();
    begin("extend");
    for (size_t i = 0; i < count; i++) {
        extensions[i] = (struct ledger_extension){
            .expires_ms = now_ms + (int64_t)below(4 * HOUR_S) * 1000 - HOUR_MS};
        other_extensions[i] = extensions[i];
        list[i] = &extensions[i];
        other_list[i] = &other_extensions[i];
    }
    compare(ledger_extend(real, pointers, list, count),
            model_ledger_extend(model, other, other_list, count));
    compare_records(records, others, count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(extensions[i].moved, other_extensions[i].moved);
        assert_int_equal(extensions[i].limited, other_extensions[i].limited);
        if (extensions[i].limited)
            assert_int_equal(extensions[i].latest_ms, other_extensions[i].latest_ms);
    }
}

/* Names orders of both sales, each once, and says of some that their round is over. */
static size_t name_returns(struct ledger_return_order *orders, enum ledger_status to)
{
    static char refs[IDS_MAX][8];
    size_t count = 1 + below(IDS_MAX), kept = 0;
    for (size_t i = 0; i < count; i++) {
        orders[i] = (struct ledger_return_order){
            .order_id = any_id(),
            .payment_ref = refs[i],
            .round_over = one_in(20),
            .keep = one_in(3) && to != LEDGER_RESERVED ? 1 + below(3) : 0,
            .unreturned = to == LEDGER_REFUNDED && one_in(2)};
        any_ref(refs[i]);
        const char *taken = payment_taken(model, orders[i].order_id);
        if (taken && !one_in(10))
            strcpy(refs[i], taken);
    }
    qsort(orders, count, sizeof *orders, ledger_return_order_compare);
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || orders[kept - 1].order_id != orders[i].order_id)
            orders[kept++] = orders[i];
    return kept;
}

/* Names some of the segments of both sales. */
static size_t name_segments(struct ledger_return_segment *segments)
{
    struct ledger_segment rows[LEDGER_SEGMENTS_MAX];
    size_t held = 0;
    for (size_t n = 0; n < 2; n++) {
        size_t count = find_segments(skus[n], rows);
        for (size_t i = 0; i < count; i++)
            if (!one_in(3))
                segments[held++] =
                    (struct ledger_return_segment){.sku = skus[n],
                                                   .segment = (uint32_t)i,
                                                   .segments = (uint32_t)count,
                                                   .fence = rows[i].fence + 1 - one_in(15)};
    }
    return held;
}

static void call_return(void)
{
    struct ledger_return_segment segments[2 * SEGMENTS_MAX], other_segments[2 * SEGMENTS_MAX];
    struct ledger_return_order orders[IDS_MAX], others[IDS_MAX];
    begin("return");
    /* With a time to pay, an order would get the clock of the server that it is in. */
    bool timed =
        find_sale("a").settings.pay_within_s > 0 || find_sale("b").settings.pay_within_s > 0;
    enum ledger_status to = one_in(3)             ? LEDGER_CANCELLED
                            : one_in(3)           ? LEDGER_EXPIRED
                            : !timed && one_in(2) ? LEDGER_RESERVED
                                                  : LEDGER_REFUNDED;
    struct ledger_return returned = {.to = to,
                                     .orders = orders,
                                     .order_count = name_returns(orders, to),
                                     .segments = segments,
                                     .segment_count = name_segments(segments)};
    struct ledger_return other = returned;
    memcpy(others, orders, sizeof others);
    memcpy(other_segments, segments, sizeof other_segments);
    other.orders = others;
    other.segments = other_segments;
    enum ledger_result result = ledger_return(real, &returned);
    compare(result, model_ledger_return(model, &other));
    for (size_t i = 0; i < returned.order_count; i++) {
        assert_int_equal(orders[i].moved, others[i].moved);
        assert_int_equal(orders[i].unmet, others[i].unmet);
        assert_int_equal(orders[i].damaged, others[i].damaged);
        assert_string_equal(orders[i].next_ref, others[i].next_ref);
    }
    for (size_t i = 0; i < returned.segment_count; i++) {
        assert_int_equal(segments[i].returned, other_segments[i].returned);
        assert_memory_equal(&segments[i].row, &other_segments[i].row, sizeof segments[i].row);
    }
}

static void call_keys(void)
{
    struct ledger_key keys[IDS_MAX], others[IDS_MAX];
    char names[IDS_MAX][8];
    size_t count = 1 + below(IDS_MAX);
    begin("find keys");
    for (size_t i = 0; i < count; i++) {
        sprintf(names[i], "k%u", below(30));
        keys[i] = (struct ledger_key){.user_id = users[below(USERS)], .key = names[i]};
        others[i] = keys[i];
    }
    compare(ledger_keys_find(real, keys, count), model_ledger_keys_find(model, others, count));
    for (size_t i = 0; i < count; i++)
        assert_int_equal(keys[i].order_id, others[i].order_id);
}

static void call_quotas(void)
{
    struct ledger_quota quotas[2 * USERS], others[2 * USERS];
    size_t count = 0;
    begin("find quotas");
    for (size_t sku = 0; sku < 2; sku++)
        for (size_t user = 0; user < USERS; user++)
            quotas[count++] = (struct ledger_quota){
                .sku = skus[sku], .user_id = users[user], .round = find_sale(skus[sku]).round};
    memcpy(others, quotas, sizeof others);
    compare(ledger_quotas_find(real, quotas, count),
            model_ledger_quotas_find(model, others, count));
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(quotas[i].units, others[i].units);
        assert_int_equal(quotas[i].order_count, others[i].order_count);
        assert_memory_equal(quotas[i].order_ids, others[i].order_ids,
                            quotas[i].order_count * sizeof(uint64_t));
    }
}

static void call_due(void)
{
    static struct ledger_due due[3600], others[3600];
    struct ledger_due_cursor cursor = {.more = false}, other_cursor = {.more = false};
    size_t count = 0, other_count = 0;
    begin("list what is due");
    compare(ledger_due_list(real, &cursor, 3600, due, &count),
            model_ledger_due_list(model, &other_cursor, 3600, others, &other_count));
    assert_int_equal(count, other_count);
    for (size_t i = 0; i < count; i++) {
        assert_int_equal(due[i].order_id, others[i].order_id);
        assert_string_equal(due[i].sku, others[i].sku);
        assert_int_equal(due[i].round, others[i].round);
        assert_int_equal(due[i].qty, others[i].qty);
    }
}

static void call_restock(void)
{
    uint64_t fences[SEGMENTS_MAX];
    struct ledger_segment rows[SEGMENTS_MAX], other_rows[SEGMENTS_MAX];
    struct ledger_sale sale, other_sale;
    const char *sku = any_sku();
    char key[8] = "";
    uint32_t units = 0, other_units = 0;
    begin("restock");
    if (one_in(2))
        sprintf(key, "r%u", below(40));
    for (size_t i = 0; i < SEGMENTS_MAX; i++)
        fences[i] = 1 + below(300);
    struct ledger_restock restock = {.sku = sku,
                                     .key = key,
                                     .units = 1 + below(9),
                                     .total_max = one_in(10) ? 50 : 100000,
                                     .fences = fences,
                                     .fence_count = find_sale(sku).segments};
    if (restock.fence_count == 0 || one_in(10))
        restock.fence_count = 1 + below(SEGMENTS_MAX);
    struct ledger_restock other = restock;
    enum ledger_result result = ledger_restock(real, &restock, &sale, rows);
    compare(result, model_ledger_restock(model, &other, &other_sale, other_rows));
    assert_int_equal(restock.too_many, other.too_many);
    if (result == LEDGER_OK) {
        assert_memory_equal(rows, other_rows, restock.fence_count * sizeof *rows);
        assert_int_equal(sale.total, other_sale.total);
        assert_int_equal(sale.settings.version, other_sale.settings.version);
        assert_int_equal(sale.settings.counting, other_sale.settings.counting);
    }
    uint32_t round = 0, other_round = 0;
    compare(ledger_restock_find(real, sku, key, &units, &round),
            model_ledger_restock_find(model, sku, key, &other_units, &other_round));
    assert_int_equal(round, other_round);
    assert_int_equal(units, other_units);
}

static void call_settings(void)
{
    const char *sku = any_sku();
    begin("change settings");
    struct ledger_sale sale = find_sale(sku);
    struct ledger_settings settings = any_settings();
    bool unlimited = sale.settings.per_user_limit == 0;
    settings.version = sale.settings.version + one_in(15);
    settings.counting = sale.settings.counting;
    struct ledger_settings other = settings;
    bool begins = unlimited && settings.per_user_limit > 0;
    compare(ledger_settings_change(real, sku, &settings, begins),
            model_ledger_settings_change(model, sku, &other, begins));
    assert_int_equal(settings.version, other.version);
    assert_int_equal(settings.counting, other.counting);
}

static void call_count(void)
{
    char sku[IDENTIFIER_SIZE] = "", other[IDENTIFIER_SIZE] = "";
    begin("count");
    compare(ledger_count_find(real, sku), model_ledger_count_find(model, other));
    const char *which = one_in(4) ? any_sku() : sku[0] != '\0' ? sku : "a";
    uint32_t rows = 1 + below(one_in(2) ? 6 : 300);
    compare(ledger_count_step(real, which, rows), model_ledger_count_step(model, which, rows));
}

/* Sometimes with a change between the count and the end, which must refuse it. */
static void call_retire(void)
{
    struct ledger_held held = {.reserved = 0}, other_held = held;
    uint32_t segments = 0, other_segments = 0;
    const char *sku = any_sku();
    bool elsewhere = one_in(2);
    begin("retire");
    struct ledger_sale sale = find_sale(sku);
    strcpy(sale.sku, sku);
    if (sale.round == 0)
        sale.segments = 1;
    enum ledger_result counted = ledger_held_count(real, &sale, &held);
    compare(counted, model_ledger_held_count(model, &sale, &other_held));
    COMPARE_BYTES(held.reserved, other_held.reserved);
    COMPARE_BYTES(held.paid, other_held.paid);
    COMPARE_BYTES(held.fences, other_held.fences);
    COMPARE_BYTES(held.sold, other_held.sold);
    COMPARE_BYTES(held.units, other_held.units);
    COMPARE_BYTES(held.done, other_held.done);
    sale.round += one_in(6);
    if (one_in(6))
        held.sold = ++other_held.sold;
    if (one_in(6))
        held.fences = ++other_held.fences;
    if (one_in(2) && held.reserved > 0)
        held.reserved = other_held.reserved = 0; /* the caller's business */
    if (counted == LEDGER_OK && held.reserved == 0)
        compare(ledger_retire(real, &sale, &held, elsewhere),
                model_ledger_retire(model, &sale, &other_held, elsewhere));
    assert_int_equal(held.refunds_due, other_held.refunds_due);
    compare(ledger_retired_find(real, sku, &segments),
            model_ledger_retired_find(model, sku, &other_segments));
    assert_int_equal(segments, other_segments);
}

static void call_confirm(void)
{
    begin("confirm");
    compare(ledger_confirm(real, ledger_connection(real)),
            model_ledger_confirm(model, model_ledger_connection(model)));
}

static void write_stock(const struct ledger_sale *sale, const struct ledger_segment *rows,
                        size_t count, void *context)
{
    char *text = context;
    size_t used = strlen(text);
    used += (size_t)snprintf(text + used, TEXT_SIZE - used, "%s %u %u %u %u %u\n", sale->sku,
                             sale->round, sale->total, sale->sold, sale->settings.version,
                             sale->settings.per_user_limit);
    for (size_t i = 0; i < count; i++)
        used += (size_t)snprintf(text + used, TEXT_SIZE - used, "%u %u %u\n", rows[i].segment,
                                 rows[i].capacity, rows[i].sold);
}

static void call_stock(void)
{
    size_t first = below(3), count = 1 + below((uint32_t)(3 - first));
    begin("stock");
    real_text[0] = model_text[0] = '\0';
    compare(ledger_stock_find(real, skus + first, count, false, write_stock, real_text),
            model_ledger_stock_find(model, skus + first, count, false, write_stock, model_text));
    if (strcmp(real_text, model_text) != 0)
        fail_msg("%s: the server has %s, the model %s", call_text, real_text, model_text);
}

/* ---- events ---- */

struct batches {
    struct ledger_event_batch all[LEDGER_EVENTS_BATCHES_MAX];
    size_t count;
    char *text;
};

static void visit_batch(const struct ledger_event_batch *batch, void *context)
{
    struct batches *batches = context;
    batches->all[batches->count++] = *batch;
    char body[TEXT_SIZE / 4];
    snprintf(body, sizeof body, "%.*s", (int)batch->length, batch->body);
    add_batch(batches->text, batch->position, batch->events, body);
}

static void begin_batches(struct batches *batches, char *text)
{
    batches->count = 0;
    batches->text = text;
    text[0] = '\0';
}

static void compare_batches(const struct batches *batches, const struct batches *others)
{
    assert_int_equal(batches->count, others->count);
    assert_string_equal(batches->text, others->text);
}

static struct ledger_event_bounds find_bounds(void)
{
    struct ledger_event_bounds bounds, other;
    compare(ledger_events_bounds(real, &bounds), model_ledger_events_bounds(model, &other));
    COMPARE_BYTES(bounds.oldest, other.oldest);
    COMPARE_BYTES(bounds.next, other.next);
    assert_int_equal(bounds.last_ms != 0, other.last_ms != 0);
    assert_int_equal(bounds.waiting_ms != 0, other.waiting_ms != 0);
    return bounds;
}

static int compare_skus(const void *a, const void *b)
{
    return strcmp(((const struct ledger_event_sale *)a)->sku,
                  ((const struct ledger_event_sale *)b)->sku);
}

/* Sales, mostly those that were retired, and what was told of them before. */
static size_t find_told(struct ledger_event_sale *sales)
{
    struct ledger_event_sale others[SALES_MAX];
    size_t count = 0, other_count = 0;
    compare(ledger_event_sales_retired(real, SALES_MAX, sales, &count),
            model_ledger_event_sales_retired(model, SALES_MAX, others, &other_count));
    qsort(sales, count, sizeof *sales, compare_skus);
    qsort(others, other_count, sizeof *others, compare_skus);
    assert_int_equal(count, other_count);
    if (count == 0) {
        strcpy(sales[0].sku, any_sku());
        others[0] = sales[0];
        count = 1;
    }
    compare(ledger_event_sales(real, sales, count), model_ledger_event_sales(model, others, count));
    for (size_t i = 0; i < count; i++) {
        assert_string_equal(sales[i].sku, others[i].sku);
        assert_int_equal(sales[i].round, others[i].round);
        assert_int_equal(sales[i].settings_version, others[i].settings_version);
        assert_int_equal(sales[i].sold_out, others[i].sold_out);
    }
    return count;
}

/* Mostly as a publisher does: the guards refuse the rest. */
static void call_publish(void)
{
    static struct batches pending, others;
    static struct ledger_event_batch placed, other_placed;
    struct ledger_event_sale sales[SALES_MAX];
    struct ledger_event events[SALES_MAX];
    begin("publish");
    begin_batches(&pending, real_text);
    begin_batches(&others, model_text);
    struct ledger_event_bounds bounds = find_bounds();
    compare(ledger_events_pending(real, visit_batch, &pending),
            model_ledger_events_pending(model, visit_batch, &others));
    compare_batches(&pending, &others);
    size_t count = find_told(sales);
    for (size_t i = 0; i < count; i++) {
        sales[i].round = find_sale(sales[i].sku).round;
        sales[i].settings_version = find_sale(sales[i].sku).settings.version;
        sales[i].sold_out = one_in(2);
        events[i] = (struct ledger_event){
            .type = LEDGER_EVENT_SALE_CHANGED, .round = sales[i].round, .left = below(9)};
        strcpy(events[i].sku, sales[i].sku);
    }
    if (pending.count > 0 && placed.id != 0 && one_in(8)) {
        pending.all[0] = placed;
        others.all[0] = other_placed;
    }
    if (one_in(4)) {
        pending.all[0].events++;
        others.all[0].events++;
    }
    struct ledger_placing placing = {.next = bounds.next + one_in(10),
                                     .batches = pending.all,
                                     .batch_count = below((uint32_t)pending.count + 1),
                                     .sale_events = events,
                                     .sale_event_count = 1 + below((uint32_t)count),
                                     .sales = sales,
                                     .sale_count = count};
    struct ledger_placing other = placing;
    other.batches = others.all;
    describe(" %zu batches", placing.batch_count);
    compare(ledger_events_place(real, &placing), model_ledger_events_place(model, &other));
    placed = pending.all[0];
    other_placed = others.all[0];
}

static void call_feed(void)
{
    static struct batches batches, others;
    begin("read events");
    begin_batches(&batches, real_text);
    begin_batches(&others, model_text);
    uint64_t position = 1 + below((uint32_t)find_bounds().next + 2);
    uint32_t events = 1 + below(40);
    compare(ledger_events_read(real, position, events, visit_batch, &batches),
            model_ledger_events_read(model, position, events, visit_batch, &others));
    compare_batches(&batches, &others);
}

static const struct {
    void (*call)(void);
    uint32_t weight;
} calls[] = {
    {call_commit, 30}, {call_reset, 5},   {call_round, 4},    {call_resolve, 3}, {call_recover, 3},
    {call_orders, 3},  {call_pay, 9},     {call_return, 12},  {call_keys, 3},    {call_quotas, 3},
    {call_due, 3},     {call_restock, 4}, {call_settings, 6}, {call_count, 12},  {call_confirm, 1},
    {call_retire, 2},  {call_stock, 3},   {call_payments, 3}, {call_refund, 3},  {call_extend, 5},
    {call_publish, 9}, {call_feed, 4},
};

static void call_any(void)
{
    uint32_t sum = 0;
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++)
        sum += calls[i].weight;
    uint32_t pick = below(sum);
    for (size_t i = 0; i < sizeof calls / sizeof calls[0]; i++) {
        if (pick < calls[i].weight) {
            calls[i].call();
            return;
        }
        pick -= calls[i].weight;
    }
}

/* SECKILL_CALLS and SECKILL_SEED: more calls, and others. */
static uint32_t from_environment(const char *name, uint32_t otherwise)
{
    const char *text = getenv(name);
    return text ? (uint32_t)strtoul(text, NULL, 10) : otherwise;
}

static void open_model(void)
{
    char error[128];
    ledger_server_begin();
    model = model_ledger_open("", 5000, error, sizeof error);
    model_ledger_events_write(model, true);
}

static void the_model_does_what_a_server_does(void **state)
{
    char error[128];
    (void)state;
#ifdef __SANITIZE_THREAD__
    skip(); /* it has one thread, and the sanitizer leaves no room for the model's memory */
#endif
    sql_server_clear();
    real = ledger_open(sql_server_url(), 5000, error, sizeof error);
    assert_int_equal(ledger_migrate(real, NULL, NULL), LEDGER_OK);
    ledger_events_write(real, true);
    db = sql_server_open(sql_server_url());
    open_model();
    seed = from_environment("SECKILL_SEED", 1);
    uint32_t count = from_environment("SECKILL_CALLS", CALLS_DEFAULT);
    call_reset();
    for (uint32_t i = 0; i < count; i++) {
        call_any();
        compare_rows();
        if (i % 150 == 149) { /* before the model's tables are full */
            sql_server_empty();
            sql_server_do("DELETE FROM payment;DELETE FROM refund_due");
            arena_reset();
            open_model();
            call_reset();
        }
    }
    db_close(&db);
    ledger_close(&real);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_model_does_what_a_server_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Events in the ledger: each change of an order writes one, in its transaction; they get positions
 * in an order in which nothing is passed over; readers read on from a position. */
#include "base/fault.h"
#include "sql/events/events.h"
#include "sql/payments/payments.h"
#include "sql/sales/sales.h"
#include "sql/test_server.h"

enum { FENCE = 1000, MANY = 64 };

static struct ledger *ledger;

/* What the last reading has found. */
static struct ledger_event events[MANY];
static struct ledger_event_batch batches[MANY];
static size_t event_count, batch_count;

static int start_group(void **state)
{
    (void)state;
    ledger = sql_server_ledger();
    ledger_events_write(ledger, true);
    return 0;
}

static int stop_group(void **state)
{
    (void)state;
    ledger_close(&ledger);
    return 0;
}

/* Each test begins with a sale "s" of 2 segments, 100 units each, 6 of them sold, at fence 1000. */
static int start(void **state)
{
    (void)state;
    sql_server_empty();
    sql_server_do("INSERT INTO sale(sku,round,total,segments,hold_max_s)VALUES('s',1,200,2,3600);"
                  "INSERT INTO stock_segment(sku,segment,round,capacity,sold,fence)VALUES"
                  "('s',0,1,100,6,1000),('s',1,1,100,6,1000)");
    return 0;
}

/* ---- helpers ---- */

static void visit(const struct ledger_event_batch *batch, void *context)
{
    (void)context;
    const char *at = batch->body;
    size_t first = event_count;
    struct ledger_event event = {.order_id = 0};
    assert_true(batch_count < MANY);
    batches[batch_count++] = *batch;
    if (batch->length == 0) /* without a body */
        return;
    while (event_count < MANY && ledger_event_next(batch, &at, &event))
        events[event_count++] = event;
    assert_null(at);
    assert_int_equal(event_count - first, batch->events);
}

static void forget(void)
{
    event_count = batch_count = 0;
}

static size_t pending(void)
{
    forget();
    assert_int_equal(ledger_events_pending(ledger, visit, NULL), LEDGER_OK);
    return batch_count;
}

/* Reads the events of what is pending, by giving it positions for a moment. */
static size_t pending_events(void)
{
    sql_server_do("UPDATE event_batch SET position=id");
    forget();
    assert_int_equal(ledger_events_read(ledger, 1, 100000, visit, NULL), LEDGER_OK);
    sql_server_do("UPDATE event_batch SET position=0");
    return event_count;
}

static size_t read_from(uint64_t position, uint32_t count)
{
    forget();
    assert_int_equal(ledger_events_read(ledger, position, count, visit, NULL), LEDGER_OK);
    return event_count;
}

static struct ledger_event_bounds bounds(void)
{
    struct ledger_event_bounds found;
    assert_int_equal(ledger_events_bounds(ledger, &found), LEDGER_OK);
    return found;
}

/* Gives positions to what is pending. */
static enum ledger_result place(uint64_t next)
{
    pending();
    const struct ledger_placing placing = {
        .next = next, .batches = batches, .batch_count = batch_count};
    return ledger_events_place(ledger, &placing);
}

static void sell(uint64_t id, uint32_t qty, const char *user)
{
    struct ledger_stock_update update = {
        .sku = "s", .round = 1, .units = qty, .fence = FENCE + id, .guard = LEDGER_FENCED};
    struct ledger_order order = {.order_id = id,
                                 .sku = "s",
                                 .user_id = user,
                                 .round = 1,
                                 .qty = qty,
                                 .created_ms = 1795000000000,
                                 .expires_ms = 4102444800000};
    assert_int_equal(ledger_commit(ledger, &update, 1, &order, 1), LEDGER_OK);
}

static void give_back(uint64_t id, enum ledger_status to, uint32_t keep)
{
    struct ledger_return_order order = {.order_id = id, .payment_ref = "ref-1", .keep = keep};
    struct ledger_return_segment segment = {
        .sku = "s", .segment = 1, .segments = 2, .fence = 2 * FENCE + id};
    struct ledger_return returned = {
        .to = to, .orders = &order, .order_count = 1, .segments = &segment, .segment_count = 1};
    sql_server_do("UPDATE stock_segment SET fence=1000,sold=6");
    assert_int_equal(ledger_return(ledger, &returned), LEDGER_OK);
    assert_true(order.moved);
}

static struct ledger_payment pay(uint64_t id, const char *ref, enum ledger_late late)
{
    struct ledger_record record = {.order_id = id}, *records = &record;
    struct ledger_payment payment = {.ref = ref, .late = late}, *payments = &payment;
    assert_int_equal(ledger_pay(ledger, &records, &payments, 1), LEDGER_OK);
    return payment;
}

static void expect(size_t i, enum ledger_event_type type, uint64_t order_id, uint32_t version,
                   uint32_t qty)
{
    assert_true(i < event_count);
    assert_string_equal(ledger_event_name(events[i].type), ledger_event_name(type));
    assert_int_equal(events[i].order_id, order_id);
    assert_int_equal(events[i].version, version);
    assert_int_equal(events[i].qty, qty);
    assert_string_equal(events[i].sku, "s");
    assert_int_equal(events[i].round, 1);
}

/* ---- what writes events ---- */

static void test_each_change_of_an_order_is_an_event_with_its_version(void **state)
{
    (void)state;
    sell(1, 3, "it's\\me");
    pay(1, "ref-1", LEDGER_LATE_ASKED);
    give_back(1, LEDGER_REFUNDED, 2);
    give_back(1, LEDGER_REFUNDED, 0);
    assert_int_equal(pending_events(), 4);
    expect(0, LEDGER_EVENT_ACCEPTED, 1, 1, 3);
    expect(1, LEDGER_EVENT_PAID, 1, 2, 3);
    expect(2, LEDGER_EVENT_CHANGED, 1, 3, 2);
    expect(3, LEDGER_EVENT_REFUNDED, 1, 4, 2);
    for (size_t i = 0; i < 4; i++) {
        assert_string_equal(events[i].user_id, "it's\\me");
        assert_true(events[i].expires_ms == 4102444800000);
        assert_string_equal(events[i].payment_ref, i == 1 || i == 2 ? "ref-1" : "");
    }
}

static void test_payments_that_end_are_told_with_their_names(void **state)
{
    (void)state;
    sell(1, 3, "u");
    pay(1, "ref-1", false);
    give_back(1, LEDGER_RESERVED, 0);
    sell(2, 3, "u");
    pay(2, "ref-1", false);
    pay(2, "ref-2", false);
    give_back(2, LEDGER_REFUNDED, 0);
    assert_int_equal(pending_events(), 7);
    expect(2, LEDGER_EVENT_UNPAID, 1, 3, 3);
    assert_string_equal(events[2].payment_ref, "ref-1"); /* it has failed */
    assert_true(events[2].expires_ms == 0);
    expect(6, LEDGER_EVENT_CHANGED, 2, 3, 3);
    assert_string_equal(events[6].payment_ref, "ref-2"); /* it pays the order now */
}

static void test_cancels_expiries_and_extensions_are_events(void **state)
{
    (void)state;
    struct ledger_record record = {.order_id = 3}, *records = &record;
    struct ledger_extension extension = {.expires_ms = 1795000600000}, *extensions = &extension;
    sell(1, 1, "u");
    sell(2, 2, "u");
    sell(3, 1, "u");
    give_back(1, LEDGER_CANCELLED, 0);
    sql_server_do("UPDATE orders SET expires_at='2020-01-01' WHERE order_id=2");
    give_back(2, LEDGER_EXPIRED, 0);
    sql_server_do("UPDATE orders SET created_at=UTC_TIMESTAMP(3),expires_at=UTC_TIMESTAMP(3)+"
                  "INTERVAL 60 SECOND WHERE order_id=3");
    extension.expires_ms = bounds().now_ms + 600000;
    assert_int_equal(ledger_extend(ledger, &records, &extensions, 1), LEDGER_OK);
    assert_true(extension.moved);
    assert_int_equal(pending_events(), 6);
    expect(3, LEDGER_EVENT_CANCELLED, 1, 2, 1);
    expect(4, LEDGER_EVENT_EXPIRED, 2, 2, 2);
    expect(5, LEDGER_EVENT_CHANGED, 3, 2, 1);
    assert_true(events[5].expires_ms == extension.expires_ms);
}

static void test_late_money_is_retaken_or_due(void **state)
{
    (void)state;
    sell(1, 1, "u");
    sell(2, 1, "u");
    sql_server_do("UPDATE orders SET status='expired',version=2,expires_at='2020-01-01';"
                  "DELETE FROM event_batch;UPDATE stock_segment SET fence=1000");
    struct ledger_stock_update update = {
        .sku = "s", .round = 1, .units = 1, .fence = FENCE + 5, .guard = LEDGER_FENCED};
    struct ledger_order order = {
        .order_id = 1, .sku = "s", .user_id = "u", .round = 1, .qty = 1, .payment_ref = "late"};
    assert_int_equal(ledger_commit(ledger, &update, 1, &order, 1), LEDGER_OK);
    assert_int_equal(pay(2, "later", LEDGER_LATE_NO_UNITS).state, LEDGER_PAYMENT_DUE);
    assert_int_equal(pending_events(), 2);
    expect(0, LEDGER_EVENT_RETAKEN, 1, 3, 1);
    assert_string_equal(events[0].payment_ref, "late");
    expect(1, LEDGER_EVENT_REFUND_DUE, 2, 0, 1);
    assert_string_equal(events[1].payment_ref, "later");
}

static void test_orders_of_an_ended_round_expire_with_events(void **state)
{
    (void)state;
    uint32_t ended = 0;
    sell(1, 1, "u");
    sell(2, 1, "v");
    pay(2, "", LEDGER_LATE_ASKED);
    sql_server_do("DELETE FROM event_batch;UPDATE sale SET round=2;"
                  "INSERT INTO round_end(sku,round,units)VALUES('s',1,2)");
    assert_int_equal(ledger_round_end_step(ledger, "s", 1, 100, &ended), LEDGER_NO);
    assert_int_equal(ended, 1);
    assert_int_equal(pending_events(), 1);
    expect(0, LEDGER_EVENT_EXPIRED, 1, 2, 1);
}

static void test_nothing_is_written_while_events_are_off(void **state)
{
    (void)state;
    ledger_events_write(ledger, false);
    sell(1, 1, "u");
    pay(1, "ref-1", LEDGER_LATE_ASKED);
    give_back(1, LEDGER_REFUNDED, 0);
    ledger_events_write(ledger, true);
    assert_int_equal(pending(), 0);
    assert_int_equal(sql_server_do("SELECT version FROM orders"), 3);
}

/* Lines say only in what an order differs from the one before. */
static void test_orders_of_a_batch_are_told_apart(void **state)
{
    (void)state;
    enum { COUNT = 6 };
    static const uint64_t ids[COUNT] = {7000000000000000001, 7000000000000000003, 5, 6, 1, 2};
    static const char *const skus[COUNT] = {"s", "s", "s", "t", "t", "s"};
    struct ledger_order orders[COUNT];
    const struct ledger_stock_update update = {
        .sku = "s", .round = 1, .units = 21, .fence = FENCE + 1, .guard = LEDGER_FENCED};
    struct ledger_stock_update updates[] = {update};
    for (uint32_t i = 0; i < COUNT; i++)
        orders[i] = (struct ledger_order){.order_id = ids[i],
                                          .sku = skus[i],
                                          .user_id = i % 2 ? "u" : "v'",
                                          .round = 1 + i / 5,
                                          .qty = i + 1,
                                          .created_ms = 1795000000000,
                                          .expires_ms = i < 2 ? 0 : 4102444800000};
    assert_int_equal(ledger_commit(ledger, updates, 1, orders, COUNT), LEDGER_OK);
    assert_int_equal(pending_events(), COUNT);
    assert_int_equal(batch_count, 1);
    for (uint32_t i = 0; i < COUNT; i++) {
        assert_int_equal(events[i].type, LEDGER_EVENT_ACCEPTED);
        assert_true(events[i].order_id == ids[i]);
        assert_int_equal(events[i].version, 1);
        assert_int_equal(events[i].qty, i + 1);
        assert_int_equal(events[i].round, 1 + i / 5);
        assert_true(events[i].expires_ms == (i < 2 ? 0 : 4102444800000));
        assert_string_equal(events[i].sku, skus[i]);
        assert_string_equal(events[i].user_id, i % 2 ? "u" : "v'");
    }
}

static void test_refused_change_writes_no_event(void **state)
{
    (void)state;
    struct ledger_stock_update update = {
        .sku = "s", .round = 1, .units = 95, .fence = FENCE + 1, .guard = LEDGER_FENCED};
    struct ledger_order order = {
        .order_id = 1, .sku = "s", .user_id = "u", .round = 1, .qty = 95, .created_ms = 1};
    assert_int_equal(ledger_commit(ledger, &update, 1, &order, 1), LEDGER_NO);
    assert_int_equal(pending(), 0);
}

/* ---- positions ---- */

static void test_positions_are_contiguous_and_read_on_from_anywhere(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 5; id++)
        sell(id, 1, "u");
    sql_server_do("UPDATE event_batch SET events=3,body=CONCAT(body,'\\na 1 1 u\\na 1 1 u')"
                  "ORDER BY id LIMIT 2");
    assert_int_equal(place(1), LEDGER_OK);
    assert_int_equal(pending(), 0);
    assert_int_equal(bounds().next, 10);
    assert_int_equal(bounds().oldest, 1);
    assert_int_equal(read_from(1, 100), 9);
    assert_int_equal(batches[1].position, 4);
    assert_int_equal(read_from(6, 100), 6); /* its batch begins at 4 */
    assert_int_equal(batches[0].position, 4);
    assert_int_equal(read_from(6, 1), 3);
    assert_int_equal(read_from(10, 100), 1); /* the last one is read again, and passed over */
    sell(6, 1, "u");
    assert_int_equal(place(10), LEDGER_OK);
    assert_int_equal(read_from(10, 100), 1);
    assert_int_equal(events[0].order_id, 6);
}

/* The trap: its id is smaller, and it is seen later. */
static void test_transaction_that_commits_late_is_not_passed_over(void **state)
{
    (void)state;
    struct db *late = sql_server_open(sql_server_url());
    struct db_run run = {0};
    static const char text[] = "INSERT INTO event_batch(written_at,body,events)"
                               "VALUES(UTC_TIMESTAMP(3),'p 9 2 1 0 u s 1',1)";
    while (db_run(late, &run)) {
        run.result = db_query(late, text, sizeof text - 1);
        sell(1, 1, "u");
        assert_int_equal(place(1), LEDGER_OK);
    }
    assert_int_equal(run.result, DB_OK);
    assert_int_equal(place(2), LEDGER_OK);
    assert_int_equal(read_from(1, 100), 2);
    assert_int_equal(events[0].order_id, 1);
    assert_int_equal(events[1].order_id, 9);
    assert_true(batches[1].id < batches[0].id);
    db_close(&late);
}

/* A server that dies may lose a batch that was read, and give its id again. */
static void test_batch_with_other_events_than_were_read_is_refused(void **state)
{
    (void)state;
    sell(1, 1, "u");
    assert_int_equal(pending(), 1);
    batches[0].events++;
    const struct ledger_placing placing = {
        .next = 1, .batches = batches, .batch_count = batch_count};
    assert_int_equal(ledger_events_place(ledger, &placing), LEDGER_NO);
    assert_int_equal(bounds().next, 1);
    assert_int_equal(place(1), LEDGER_OK);
}

static void test_second_publisher_of_a_position_is_refused(void **state)
{
    (void)state;
    sell(1, 1, "u");
    assert_int_equal(place(1), LEDGER_OK);
    sell(2, 1, "u");
    assert_int_equal(place(1), LEDGER_NO);
    assert_int_equal(pending(), 1);
    assert_int_equal(bounds().next, 2);
    assert_true(bounds().waiting_ms > 0);
    assert_int_equal(place(2), LEDGER_OK);
    assert_int_equal(bounds().waiting_ms, 0);
    const struct ledger_placing again = {.next = 3, .batches = batches, .batch_count = batch_count};
    assert_int_equal(batch_count, 1);
    assert_int_equal(ledger_events_place(ledger, &again), LEDGER_NO); /* it has a position */
    assert_int_equal(bounds().next, 3);
}

/* ---- sales ---- */

static void test_what_was_published_of_a_sale_is_noted_with_it(void **state)
{
    (void)state;
    struct ledger_event_sale sales[4] = {{.sku = "s"}};
    size_t count = 0;
    assert_int_equal(ledger_event_sales(ledger, sales, 1), LEDGER_OK);
    assert_int_equal(sales[0].round, 0);
    const struct ledger_event event = {.type = LEDGER_EVENT_SALE_CHANGED,
                                       .sku = "s",
                                       .round = 1,
                                       .total = 20,
                                       .left = 8,
                                       .settings_version = 3,
                                       .paused = true};
    const struct ledger_event_sale sale = {
        .sku = "s", .round = 1, .settings_version = 3, .sold_out = true};
    const struct ledger_placing placing = {
        .next = 1, .sale_events = &event, .sale_event_count = 1, .sales = &sale, .sale_count = 1};
    assert_int_equal(ledger_events_place(ledger, &placing), LEDGER_OK);
    assert_int_equal(ledger_event_sales(ledger, sales, 1), LEDGER_OK);
    assert_int_equal(sales[0].round, 1);
    assert_int_equal(sales[0].settings_version, 3);
    assert_true(sales[0].sold_out);
    assert_int_equal(read_from(1, 10), 1);
    assert_int_equal(events[0].type, LEDGER_EVENT_SALE_CHANGED);
    assert_int_equal(events[0].total, 20);
    assert_int_equal(events[0].left, 8);
    assert_int_equal(events[0].settings_version, 3);
    assert_true(events[0].paused);
    assert_int_equal(ledger_event_sales_retired(ledger, 4, sales, &count), LEDGER_OK);
    assert_int_equal(count, 0);
    sql_server_do("DELETE FROM sale");
    assert_int_equal(ledger_event_sales_retired(ledger, 4, sales, &count), LEDGER_OK);
    assert_int_equal(count, 1);
    assert_string_equal(sales[0].sku, "s");
    assert_int_equal(sales[0].round, 0);
}

static void test_version_in_which_nothing_is_new_counts_as_published(void **state)
{
    (void)state;
    struct ledger_sale sale;
    struct ledger_event_sale told = {.sku = "s"};
    sql_server_do("UPDATE sale SET settings_version=4;UPDATE stock_segment SET settings_version=4;"
                  "INSERT INTO event_sale(sku,round,settings_version,sold_out)VALUES('s',1,4,0)");
    assert_int_equal(ledger_sale_find(ledger, "s", &sale), LEDGER_OK);
    assert_int_equal(ledger_settings_change(ledger, "s", &sale.settings, false), LEDGER_OK);
    assert_int_equal(sale.settings.version, 5);
    assert_int_equal(ledger_event_sales(ledger, &told, 1), LEDGER_OK);
    assert_int_equal(told.settings_version, 5);
    sale.settings.paused = true;
    assert_int_equal(ledger_settings_change(ledger, "s", &sale.settings, false), LEDGER_OK);
    assert_int_equal(ledger_settings_change(ledger, "s", &sale.settings, false), LEDGER_OK);
    assert_int_equal(sql_server_do("SELECT settings_version FROM sale"), 7);
    assert_int_equal(ledger_event_sales(ledger, &told, 1), LEDGER_OK);
    assert_int_equal(told.settings_version, 5); /* the pause is not published yet */
}

/* ---- retention ---- */

static void test_old_batches_are_deleted_and_the_feed_begins_later(void **state)
{
    (void)state;
    uint32_t deleted = 9;
    for (uint64_t id = 1; id <= 5; id++)
        sell(id, 1, "u");
    sql_server_do("UPDATE event_batch SET written_at=UTC_TIMESTAMP(3)-INTERVAL 3 HOUR "
                  "ORDER BY id LIMIT 3");
    assert_int_equal(ledger_events_purge(ledger, 1, 10, &deleted), LEDGER_OK);
    assert_int_equal(deleted, 0); /* they have not been published */
    assert_int_equal(place(1), LEDGER_OK);
    assert_int_equal(ledger_events_purge(ledger, 1, 2, &deleted), LEDGER_OK);
    assert_int_equal(deleted, 2);
    assert_int_equal(ledger_events_purge(ledger, 1, 2, &deleted), LEDGER_OK);
    assert_int_equal(deleted, 1);
    assert_int_equal(ledger_events_purge(ledger, 1, 2, &deleted), LEDGER_OK);
    assert_int_equal(deleted, 0);
    assert_int_equal(bounds().oldest, 4);
    assert_int_equal(read_from(1, 100), 2);
    assert_int_equal(batches[0].position, 4);
}

/* Cursors are compared with the batches in front of the feed's ends, of which one is deleted. */
static void test_bounds_tell_when_the_batches_before_them_were_written(void **state)
{
    (void)state;
    uint32_t deleted = 0;
    assert_true(bounds().before_ms == 0 && bounds().last_ms == 0);
    for (uint64_t id = 1; id <= 3; id++)
        sell(id, 1, "u");
    sql_server_do("UPDATE event_batch SET written_at=UTC_TIMESTAMP(3)-INTERVAL 3 HOUR "
                  "ORDER BY id LIMIT 2");
    assert_int_equal(place(1), LEDGER_OK);
    read_from(1, 100);
    int64_t second_ms = batches[1].written_ms, third_ms = batches[2].written_ms;
    assert_true(bounds().before_ms == 0 && bounds().last_ms == third_ms);
    assert_int_equal(ledger_events_purge(ledger, 1, 10, &deleted), LEDGER_OK);
    assert_true(bounds().before_ms == second_ms && bounds().last_ms == third_ms);
    sql_server_do("UPDATE event_batch SET written_at=written_at-INTERVAL 3 HOUR");
    assert_int_equal(ledger_events_purge(ledger, 1, 10, &deleted), LEDGER_OK);
    int64_t last_ms = third_ms - 3 * 3600 * 1000;
    assert_true(bounds().before_ms == last_ms && bounds().last_ms == last_ms);
}

/* ---- lines ---- */

static void test_line_that_makes_no_sense_ends_its_batch(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "a",
        "a 1 1 u", /* of which sale? */
        "= s 1 0",
        "= s 1\na 1 1 u",
        "= s$ 1 0\na 1 1 u",
        "= s 1 0\n= s 1 0\na 1 1 u",
        "= s 1 0\na 1 1",
        "= s 1 0\na 1 1 u v",
        "= s 1 0\na x 1 u",
        "= s 1 0\naa 1 1 u",
        "z 1 1 1 0 u s 1",
        "p 1 1 1 0 u s",
        "p 1 1 1 0 u s 1 p q",
        "p 1 1 1 0  s 1",
        "p 1 1 1 0 u s$ 1",
        "p -1 1 1 0 u s 1",
        "p 99999999999999999999 1 1 0 u s 1",
        "p 1 4294967296 1 0 u s 1",
        "o s 1 20 0 1 2",
        " ",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct ledger_event event = {.order_id = 0};
        const struct ledger_event_batch batch = {.body = bad[i], .length = strlen(bad[i])};
        const char *at = batch.body;
        assert_false(ledger_event_next(&batch, &at, &event));
    }
}

static void test_batch_of_an_impossible_size_is_left_out(void **state)
{
    (void)state;
    static const uint32_t bad[] = {0, LEDGER_EVENTS_MAX + 1, UINT32_MAX};
    for (uint64_t id = 1; id <= 2; id++)
        sell(id, 1, "u");
    assert_int_equal(place(1), LEDGER_OK);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        sql_server_do("UPDATE event_batch SET events=%u WHERE position=1", bad[i]);
        ledger_fault(ledger)->damaged = false;
        assert_int_equal(read_from(1, 100), 1);
        assert_int_equal(batches[0].position, 2);
        assert_true(ledger_fault(ledger)->damaged);
    }
}

static void test_each_type_has_a_name_of_its_own(void **state)
{
    (void)state;
    for (int type = 0; type < LEDGER_EVENT_TYPES; type++)
        assert_int_equal(ledger_event_type_of(ledger_event_name((enum ledger_event_type)type)),
                         type);
    assert_int_equal(ledger_event_type_of("order.unknown"), LEDGER_EVENT_TYPES);
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_each_change_of_an_order_is_an_event_with_its_version),
        TEST(test_payments_that_end_are_told_with_their_names),
        TEST(test_cancels_expiries_and_extensions_are_events),
        TEST(test_late_money_is_retaken_or_due),
        TEST(test_orders_of_an_ended_round_expire_with_events),
        TEST(test_nothing_is_written_while_events_are_off),
        TEST(test_orders_of_a_batch_are_told_apart),
        TEST(test_refused_change_writes_no_event),
        TEST(test_positions_are_contiguous_and_read_on_from_anywhere),
        TEST(test_transaction_that_commits_late_is_not_passed_over),
        TEST(test_batch_with_other_events_than_were_read_is_refused),
        TEST(test_second_publisher_of_a_position_is_refused),
        TEST(test_what_was_published_of_a_sale_is_noted_with_it),
        TEST(test_version_in_which_nothing_is_new_counts_as_published),
        TEST(test_old_batches_are_deleted_and_the_feed_begins_later),
        TEST(test_bounds_tell_when_the_batches_before_them_were_written),
        TEST(test_line_that_makes_no_sense_ends_its_batch),
        TEST(test_batch_of_an_impossible_size_is_left_out),
        TEST(test_each_type_has_a_name_of_its_own),
    };
    return cmocka_run_group_tests(tests, start_group, stop_group);
}

/* Which events of a webhook's queue go into a request, and how far it has got. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "service/events/event_text.h"
#include "service/events/webhook_queue.h"

static struct webhook_queue queue;
static struct webhook_run run;

static int start(void **state)
{
    (void)state;
    webhook_queue_clear(&queue, 1);
    return 0;
}

static void add_event(enum ledger_event_type type, uint64_t order_id, const char *sku)
{
    struct ledger_event event = {.type = type, .order_id = order_id};
    struct event_writer writer;
    char text[EVENT_TEXT_MAX];
    strcpy(event.sku, sku);
    event_writer_init(&writer, 0, 0);
    *event_text(text, &writer, &event, queue.next) = '\0';
    webhook_queue_add(&queue, queue.next++, strdup(text), strlen(text));
}

/* Adds an event of each of these orders, in their order. */
static void add(const char *orders)
{
    for (; *orders; orders++)
        add_event(LEDGER_EVENT_PAID, (uint64_t)*orders, "s");
}

static void expect(size_t max, uint64_t first_position, size_t count)
{
    assert_true(webhook_queue_take(&queue, max, &run));
    assert_int_equal(webhook_event_at(&queue, run.first)->position, first_position);
    assert_int_equal(run.count, count);
}

static void expect_none(size_t max)
{
    assert_false(webhook_queue_take(&queue, max, &run));
}

static void test_events_of_one_order_go_one_after_the_other(void **state)
{
    (void)state;
    add("aab");
    expect(1, 1, 1);
    struct webhook_run first = run;
    expect(1, 3, 1); /* the second event of a waits, b passes by */
    expect_none(1);
    webhook_queue_deliver(&queue, &first);
    expect(1, 2, 1);
    expect_none(1);
}

static void test_batch_has_no_gap_and_may_hold_an_order_twice(void **state)
{
    (void)state;
    add("abacdbe");
    expect(3, 1, 3); /* a b a */
    struct webhook_run first = run;
    expect(3, 4, 2); /* c d: b is under way */
    struct webhook_run second = run;
    expect(3, 7, 1); /* e */
    expect_none(3);
    webhook_queue_deliver(&queue, &second);
    expect_none(3);
    webhook_queue_deliver(&queue, &first);
    expect(3, 6, 1);
    expect_none(3);
}

static void test_position_is_that_of_the_first_event_not_delivered(void **state)
{
    (void)state;
    assert_int_equal(webhook_queue_position(&queue), 1);
    queue.next = 5; /* four that were not wanted */
    assert_int_equal(webhook_queue_position(&queue), 5);
    add("abc");
    expect(1, 5, 1);
    struct webhook_run a = run;
    expect(1, 6, 1);
    webhook_queue_deliver(&queue, &run);
    assert_int_equal(webhook_queue_position(&queue), 5);
    webhook_queue_deliver(&queue, &a);
    assert_int_equal(webhook_queue_position(&queue), 7);
    expect(1, 7, 1);
    webhook_queue_deliver(&queue, &run);
    assert_int_equal(webhook_queue_position(&queue), 8);
    assert_int_equal(webhook_queue_room(&queue), WEBHOOK_QUEUE_MAX);
}

static void test_set_aside_events_hold_their_orders_alone(void **state)
{
    char body[4 * EVENT_TEXT_MAX];
    (void)state;
    add("abab");
    add_event(LEDGER_EVENT_SOLD_OUT, 0, "s");
    expect(2, 1, 2); /* a b */
    strcpy(body, webhook_event_at(&queue, 0)->text);
    strcat(body, webhook_event_at(&queue, 1)->text);
    webhook_queue_hold(&queue, body, 1);
    webhook_queue_deliver(&queue, &run);
    assert_int_equal(webhook_queue_position(&queue), 3);
    expect(2, 5, 1);
    expect_none(2);
    webhook_queue_hold(&queue, body, -1);
    expect(2, 3, 2);
}

static void test_text_of_a_client_is_no_subject(void **state)
{
    struct ledger_event event = {.type = LEDGER_EVENT_PAID, .order_id = 1};
    struct event_writer writer;
    char text[EVENT_TEXT_MAX];
    size_t held = 0;
    (void)state;
    strcpy(event.user_id, ",\"subject\":\"7\"");
    event_writer_init(&writer, 0, 0);
    *event_text(text, &writer, &event, 1) = '\0';
    webhook_queue_hold(&queue, text, 1);
    for (size_t i = 0; i < WEBHOOK_QUEUE_SUBJECTS; i++)
        held += queue.open[i];
    assert_int_equal(held, 1);
}

static void test_events_of_a_sale_go_one_after_the_other(void **state)
{
    (void)state;
    add_event(LEDGER_EVENT_SOLD_OUT, 0, "s");
    add_event(LEDGER_EVENT_AVAILABLE, 0, "s");
    add_event(LEDGER_EVENT_AVAILABLE, 0, "t");
    expect(1, 1, 1);
    expect(1, 3, 1);
    expect_none(1);
}

/* Random deliveries in random order: each event goes once, each order's in its order. */
static void test_every_event_goes_once_and_in_its_order(void **state)
{
    enum { EVENTS = 30000, ORDERS = 40, OPEN_MAX = 8 };
    static uint64_t last[WEBHOOK_QUEUE_SUBJECTS], delivered;
    struct webhook_run open[OPEN_MAX] = {{0}};
    size_t count = 0;
    unsigned seed = 1;
    (void)state;
    while (delivered < EVENTS) {
        while (queue.next <= EVENTS && webhook_queue_room(&queue) > 0)
            add_event(LEDGER_EVENT_PAID, (uint64_t)(rand_r(&seed) % ORDERS), "s");
        while (count < OPEN_MAX && webhook_queue_take(&queue, 1 + (size_t)rand_r(&seed) % 9, &run))
            open[count++] = run;
        assert_true(count > 0);
        size_t i = count > 1 ? (size_t)rand_r(&seed) % count : 0;
        for (size_t j = 0; j < open[i].count; j++) {
            const struct webhook_event *event = webhook_event_at(&queue, open[i].first + j);
            assert_true(event->position > last[event->subject]);
            last[event->subject] = event->position;
        }
        delivered += open[i].count;
        webhook_queue_deliver(&queue, &open[i]);
        open[i] = open[--count];
        assert_true(webhook_queue_position(&queue) <= delivered + 1);
    }
    assert_int_equal(webhook_queue_position(&queue), EVENTS + 1);
}

static void test_orders_of_one_moment_pass_each_other(void **state)
{
    enum { ORDERS = 16 };
    size_t open = 0;
    (void)state;
    for (uint64_t ms = 0; ms < ORDERS; ms++)
        add_event(LEDGER_EVENT_ACCEPTED, (UINT64_C(59123456789) + ms) << 23 | 1 << 12, "s");
    while (webhook_queue_take(&queue, 1, &run))
        open++;
    assert_true(open >= ORDERS - 2); /* few share a place by chance */
}

static void test_filter_is_by_type_and_sku(void **state)
{
    struct webhook_settings settings = {.batch = 1};
    struct ledger_event event = {.type = LEDGER_EVENT_PAID, .sku = "s"};
    (void)state;
    assert_true(webhook_wants(&settings, &event));
    settings.types = 1U << LEDGER_EVENT_PAID | 1U << LEDGER_EVENT_SOLD_OUT;
    assert_true(webhook_wants(&settings, &event));
    event.type = LEDGER_EVENT_ACCEPTED;
    assert_false(webhook_wants(&settings, &event));
    event.type = LEDGER_EVENT_SOLD_OUT;
    strcpy(settings.skus[settings.sku_count++], "t");
    assert_false(webhook_wants(&settings, &event));
    strcpy(settings.skus[settings.sku_count++], "s");
    assert_true(webhook_wants(&settings, &event));
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, start)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_events_of_one_order_go_one_after_the_other),
        TEST(test_batch_has_no_gap_and_may_hold_an_order_twice),
        TEST(test_position_is_that_of_the_first_event_not_delivered),
        TEST(test_set_aside_events_hold_their_orders_alone),
        TEST(test_text_of_a_client_is_no_subject),
        TEST(test_events_of_a_sale_go_one_after_the_other),
        TEST(test_every_event_goes_once_and_in_its_order),
        TEST(test_orders_of_one_moment_pass_each_other),
        TEST(test_filter_is_by_type_and_sku),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

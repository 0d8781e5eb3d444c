/* Events as text: each type as CloudEvents write it, pages of them, and the newest pages. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/events/event_text.h"
#include "service/events/feed_page.h"

static char text[EVENT_TEXT_MAX];

static const char *written(const struct ledger_event *event, uint64_t position)
{
    struct event_writer writer;
    event_writer_init(&writer, 3, 1795000000123);
    *event_text(text, &writer, event, position) = '\0';
    return text;
}

static void test_event_of_an_order_is_a_cloud_event(void **state)
{
    (void)state;
    const struct ledger_event event = {.type = LEDGER_EVENT_PAID,
                                       .sku = "s:1",
                                       .round = 2,
                                       .order_id = 18446744073709551615U,
                                       .version = 7,
                                       .qty = 5,
                                       .expires_ms = 1795000000000,
                                       .user_id = "a\"b\\c",
                                       .payment_ref = "p\""};
    assert_string_equal(written(&event, 99),
                        "{\"specversion\":\"1.0\",\"id\":\"99\",\"source\":\"/seckill/3\","
                        "\"type\":\"order.paid\",\"time\":\"2026-11-18T11:06:40.123Z\","
                        "\"subject\":\"18446744073709551615\",\"sku\":\"s:1\",\"version\":7,"
                        "\"data\":{\"user_id\":\"a\\\"b\\\\c\",\"qty\":5,\"round\":2,"
                        "\"expires_at\":\"2026-11-18T11:06:40.000Z\",\"payment_ref\":\"p\\\"\"}}");
}

static void test_event_without_expiry_payment_or_version_leaves_them_out(void **state)
{
    (void)state;
    const struct ledger_event event = {.type = LEDGER_EVENT_REFUND_DUE,
                                       .sku = "s",
                                       .round = 1,
                                       .order_id = 1,
                                       .qty = 1,
                                       .user_id = "u"};
    assert_string_equal(written(&event, 1),
                        "{\"specversion\":\"1.0\",\"id\":\"1\",\"source\":\"/seckill/3\","
                        "\"type\":\"payment.refund_due\",\"time\":\"2026-11-18T11:06:40.123Z\","
                        "\"subject\":\"1\",\"sku\":\"s\","
                        "\"data\":{\"user_id\":\"u\",\"qty\":1,\"round\":1}}");
}

static void test_event_of_a_sale_has_its_stock(void **state)
{
    (void)state;
    struct ledger_event event = {.type = LEDGER_EVENT_SALE_CHANGED,
                                 .sku = "s",
                                 .round = 4,
                                 .total = 20,
                                 .left = 8,
                                 .settings_version = 3};
    assert_non_null(strstr(written(&event, 1),
                           "\"subject\":\"s\",\"sku\":\"s\",\"data\":{\"round\":4,\"total\":20,"
                           "\"available\":8,\"settings_version\":3,\"paused\":false}}"));
    event.round = 0;
    assert_non_null(strstr(written(&event, 1), "\"data\":{\"retired\":true}}"));
}

/* A long event has room: both names are of nothing but quotes. */
static void test_longest_event_fits(void **state)
{
    (void)state;
    struct ledger_event event = {.type = LEDGER_EVENT_REFUND_DUE,
                                 .round = UINT32_MAX,
                                 .order_id = UINT64_MAX,
                                 .version = UINT32_MAX,
                                 .qty = UINT32_MAX,
                                 .expires_ms = 1795000000000};
    memset(event.sku, 's', sizeof event.sku - 1);
    memset(event.user_id, '"', sizeof event.user_id - 1);
    memset(event.payment_ref, '\\', sizeof event.payment_ref - 1);
    struct event_writer writer;
    event_writer_init(&writer, UINT32_MAX, 1795000000123);
    size_t length = (size_t)(event_text(text, &writer, &event, UINT64_MAX) - text);
    assert_true(length <= sizeof text);
}

/* ---- pages ---- */

/* A page of so many events from `position` on. */
static struct feed_page *page_of(uint64_t position, uint32_t events)
{
    static char body[64 * 1024];
    size_t length = 0;
    bool damaged = true;
    for (uint32_t i = 0; i < events; i++)
        length += (size_t)sprintf(body + length, "%sa 1 1 u", i == 0 ? "= s 1 0\n" : "\n");
    const struct ledger_event_batch batch = {
        .position = position, .events = events, .body = body, .length = length};
    struct feed_page *page = feed_page_make(&batch, 0, &damaged);
    assert_false(damaged);
    return page;
}

static size_t copy(const struct feed_page *page, uint64_t position, uint32_t limit, char *out)
{
    uint32_t count = 0;
    size_t bytes = feed_page_bytes(page, position, limit, &count);
    char *end = feed_page_put(out, page, position, limit);
    assert_int_equal(end - out, bytes);
    *end = '\0';
    return count;
}

static void test_part_of_a_page_is_taken_at_its_positions(void **state)
{
    (void)state;
    static char out[4096];
    struct feed_page *page = page_of(10, 5);
    assert_int_equal(copy(page, 12, 2, out), 2);
    assert_non_null(strstr(out, "\"id\":\"12\""));
    assert_non_null(strstr(out, "\"subject\":\"4\""));
    assert_null(strstr(out, "\"id\":\"14\""));
    assert_int_equal(out[strlen(out) - 1], ',');
    assert_int_equal(copy(page, 14, 100, out), 1);
    assert_int_equal(copy(page, 10, 100, out), 5);
    feed_page_free(&page);
}

static void test_damaged_line_costs_its_batch_the_rest_alone(void **state)
{
    (void)state;
    static char out[4096];
    static const char body[] = "p 1 1 1 0 u s 1\nnonsense\np 3 1 1 0 u s 1";
    const struct ledger_event_batch batch = {
        .position = 1, .events = 3, .body = body, .length = sizeof body - 1};
    bool damaged = false;
    struct feed_page *page = feed_page_make(&batch, 0, &damaged);
    assert_true(damaged);
    uint32_t count = 0;
    assert_true(feed_page_bytes(page, 1, 3, &count) > 0);
    assert_int_equal(count, 3);
    *feed_page_put(out, page, 1, 3) = '\0';
    assert_non_null(strstr(out, "\"id\":\"1\""));
    assert_null(strstr(out, "\"id\":\"3\""));
    feed_page_free(&page);
    const struct ledger_event_batch more = {
        .position = 1, .events = 1, .body = body, .length = sizeof body - 1};
    page = feed_page_make(&more, 0, &damaged);
    assert_true(damaged);
    feed_page_free(&page);
}

/* ---- the newest pages ---- */

static void test_tail_finds_each_position_that_it_has(void **state)
{
    (void)state;
    static struct feed_tail tail;
    for (uint64_t position = 1; position < 1000; position += 3)
        feed_tail_add(&tail, page_of(position, 3));
    for (uint64_t position = 1; position <= 999; position++) {
        const struct feed_page *page = feed_tail_find(&tail, position);
        assert_non_null(page);
        assert_true(page->position <= position && position < page->position + 3);
    }
    assert_null(feed_tail_find(&tail, 0));
    assert_null(feed_tail_find(&tail, 1000));
    feed_tail_clear(&tail);
    assert_null(feed_tail_find(&tail, 1));
    assert_int_equal(tail.bytes, 0);
}

static void test_tail_keeps_the_newest_within_its_bounds(void **state)
{
    (void)state;
    static struct feed_tail tail;
    for (uint64_t position = 1; position <= FEED_TAIL_PAGES + 10; position++)
        feed_tail_add(&tail, page_of(position, 1));
    assert_int_equal(tail.count, FEED_TAIL_PAGES);
    assert_null(feed_tail_find(&tail, 10));
    assert_non_null(feed_tail_find(&tail, 11));
    feed_tail_clear(&tail);
    for (uint64_t position = 1; position <= 200 * 500; position += 500)
        feed_tail_add(&tail, page_of(position, 500));
    assert_true(tail.bytes <= FEED_TAIL_BYTES);
    assert_null(feed_tail_find(&tail, 1));
    assert_non_null(feed_tail_find(&tail, 200 * 500));
    feed_tail_clear(&tail);
}

static void test_gap_begins_the_tail_anew(void **state)
{
    (void)state;
    static struct feed_tail tail;
    feed_tail_add(&tail, page_of(1, 3));
    feed_tail_add(&tail, page_of(5, 3));
    assert_int_equal(tail.count, 1);
    assert_null(feed_tail_find(&tail, 3));
    assert_non_null(feed_tail_find(&tail, 7));
    feed_tail_clear(&tail);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_event_of_an_order_is_a_cloud_event),
        cmocka_unit_test(test_event_without_expiry_payment_or_version_leaves_them_out),
        cmocka_unit_test(test_event_of_a_sale_has_its_stock),
        cmocka_unit_test(test_longest_event_fits),
        cmocka_unit_test(test_part_of_a_page_is_taken_at_its_positions),
        cmocka_unit_test(test_damaged_line_costs_its_batch_the_rest_alone),
        cmocka_unit_test(test_tail_finds_each_position_that_it_has),
        cmocka_unit_test(test_tail_keeps_the_newest_within_its_bounds),
        cmocka_unit_test(test_gap_begins_the_tail_anew),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

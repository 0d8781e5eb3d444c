/* Every page gets the latest event whole; pages and events are bounded and released. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "service/live_feed.h"

static void publish(struct live_feed *feed, const char *data)
{
    live_feed_publish(feed, data, strlen(data));
}

static void assert_text(const struct live_event *event, const char *text)
{
    assert_non_null(event);
    assert_int_equal(event->length, strlen(text));
    assert_memory_equal(event->text, text, event->length);
}

static void test_event_has_the_form_of_server_sent_events(void **state)
{
    (void)state;
    struct live_feed *feed = live_feed_open();
    assert_null(live_feed_latest(feed, 0));
    publish(feed, "{}");
    struct live_event *event = live_feed_latest(feed, 0);
    assert_text(event, "retry: 1000\nevent: state\nid: 1\ndata: {}\n\n");
    live_event_release(&event);
    assert_null(event);
    live_event_release(&event);
    live_feed_close(&feed);
}

static void test_slow_page_skips_events_and_keeps_its_own(void **state)
{
    (void)state;
    struct live_feed *feed = live_feed_open();
    publish(feed, "1");
    struct live_event *slow = live_feed_latest(feed, 0);
    publish(feed, "2");
    publish(feed, "3");
    assert_text(slow, "retry: 1000\nevent: state\nid: 1\ndata: 1\n\n");
    struct live_event *next = live_feed_latest(feed, slow->number);
    assert_text(next, "retry: 1000\nevent: state\nid: 3\ndata: 3\n\n");
    assert_null(live_feed_latest(feed, next->number));
    live_event_release(&slow);
    live_feed_close(&feed); /* a page that ends late still has its event */
    assert_text(next, "retry: 1000\nevent: state\nid: 3\ndata: 3\n\n");
    live_event_release(&next);
}

static void test_pages_are_bounded(void **state)
{
    (void)state;
    struct live_feed *feed = live_feed_open();
    for (int i = 0; i < LIVE_PAGES_MAX; i++)
        assert_true(live_feed_enter(feed, 1000));
    assert_false(live_feed_enter(feed, 1000));
    assert_int_equal(live_feed_pages(feed), LIVE_PAGES_MAX);
    live_feed_leave(feed);
    assert_true(live_feed_enter(feed, 1000));
    for (int i = 0; i < LIVE_PAGES_MAX; i++)
        live_feed_leave(feed);
    assert_true(live_feed_enter(feed, 8)); /* a quarter of few places is for pages */
    assert_true(live_feed_enter(feed, 8));
    assert_false(live_feed_enter(feed, 8));
    live_feed_leave(feed);
    live_feed_leave(feed);
    assert_true(live_feed_enter(feed, 1));
    assert_false(live_feed_enter(feed, 1));
    live_feed_leave(feed);
    live_feed_close(&feed);
}

static void test_watchers_are_woken_once_each(void **state)
{
    (void)state;
    struct live_feed *feed = live_feed_open();
    uint64_t count = 0;
    int one = eventfd(0, EFD_NONBLOCK), other = eventfd(0, EFD_NONBLOCK);
    live_feed_watch(feed, one);
    live_feed_watch(feed, one);
    live_feed_watch(feed, other);
    publish(feed, "1");
    assert_int_equal(read(one, &count, sizeof count), sizeof count);
    assert_int_equal(count, 1);
    live_feed_unwatch(feed, one);
    live_feed_unwatch(feed, one);
    publish(feed, "2");
    assert_int_equal(read(one, &count, sizeof count), -1);
    assert_int_equal(read(other, &count, sizeof count), sizeof count);
    assert_int_equal(count, 2);
    live_feed_unwatch(feed, other);
    live_feed_close(&feed);
    close(one);
    close(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_event_has_the_form_of_server_sent_events),
        cmocka_unit_test(test_slow_page_skips_events_and_keeps_its_own),
        cmocka_unit_test(test_pages_are_bounded),
        cmocka_unit_test(test_watchers_are_woken_once_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

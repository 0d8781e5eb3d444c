/* Webhooks in the ledger: what operators set, what the sender notes, which of its notes count. */
#include "sql/events/webhooks.h"
#include "sql/test_server.h"

#define SECRET "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define NEW_SECRET "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

static struct ledger *ledger;
static struct ledger_webhook found;
static struct ledger_event_bounds bounds;

static int start_group(void **state)
{
    (void)state;
    ledger = sql_server_ledger();
    return 0;
}

static int stop_group(void **state)
{
    (void)state;
    ledger_close(&ledger);
    return 0;
}

/* Each test begins with a feed whose events 10 to 99 are kept. */
static int start(void **state)
{
    (void)state;
    sql_server_empty();
    sql_server_do("UPDATE event_feed SET oldest=10,next=100");
    return 0;
}

static const struct webhook_settings plain = {.url = "https://example.com/it's\\me?a=%s",
                                              .batch = 1,
                                              .concurrency = 4};

static enum ledger_result put(const char *name, bool rotate, bool *created)
{
    return ledger_webhook_put(ledger, name, &plain, rotate ? NEW_SECRET : SECRET, rotate, created);
}

static void make(const char *name)
{
    bool created = false;
    assert_int_equal(put(name, false, &created), LEDGER_OK);
    assert_true(created);
    assert_int_equal(ledger_webhook_find(ledger, name, &found), LEDGER_OK);
}

static void look(void)
{
    char name[IDENTIFIER_SIZE];
    strcpy(name, found.name);
    assert_int_equal(ledger_webhook_find(ledger, name, &found), LEDGER_OK);
}

static void test_new_webhook_gets_the_events_from_now_on(void **state)
{
    (void)state;
    make("w");
    assert_string_equal(found.name, "w");
    assert_string_equal(found.settings.url, plain.url);
    assert_string_equal(found.secret, SECRET);
    assert_string_equal(found.old_secret, "");
    assert_int_equal(found.state, WEBHOOK_ACTIVE);
    assert_int_equal(found.reason, WEBHOOK_REASON_NONE);
    assert_int_equal(found.progress.position, 100);
    assert_int_equal(found.settings.types, 0);
    assert_int_equal(found.settings.sku_count, 0);
    assert_true(found.created_ms > 0);
    assert_int_equal(ledger_webhook_find(ledger, "v", &found), LEDGER_NO);
}

static void test_largest_settings_are_kept(void **state)
{
    struct webhook_settings settings = {.types = (UINT32_C(1) << LEDGER_EVENT_TYPES) - 1,
                                        .batch = WEBHOOK_BATCH_MAX,
                                        .concurrency = WEBHOOK_CONCURRENCY_MAX,
                                        .sku_count = WEBHOOK_SKUS_MAX};
    bool created = false;
    (void)state;
    memset(settings.url, 'u', WEBHOOK_URL_SIZE - 1);
    for (size_t i = 0; i < WEBHOOK_SKUS_MAX; i++)
        snprintf(settings.skus[i], IDENTIFIER_SIZE, "%064zu", i);
    assert_int_equal(ledger_webhook_put(ledger, "w", &settings, SECRET, false, &created),
                     LEDGER_OK);
    assert_int_equal(ledger_webhook_find(ledger, "w", &found), LEDGER_OK);
    assert_memory_equal(&found.settings, &settings, sizeof settings);
}

static void test_rotated_secret_goes_on_signing_for_a_day(void **state)
{
    bool created = true;
    (void)state;
    make("w");
    assert_int_equal(put("w", true, &created), LEDGER_OK);
    assert_false(created);
    look();
    assert_string_equal(found.secret, NEW_SECRET);
    assert_string_equal(found.old_secret, SECRET);
    int64_t minutes =
        sql_server_do("SELECT TIMESTAMPDIFF(MINUTE,UTC_TIMESTAMP(3),old_secret_until)FROM webhook");
    assert_int_in_range(minutes, 24 * 60 - 2, 24 * 60);
    sql_server_do("UPDATE webhook SET old_secret_until=UTC_TIMESTAMP(3)-INTERVAL 1 SECOND");
    look();
    assert_string_equal(found.old_secret, "");
}

static void note(uint64_t position)
{
    found.progress.position = position;
    found.progress.delivered = 3;
    assert_int_equal(ledger_webhook_note(ledger, &found), LEDGER_OK);
}

static void test_notes_are_kept_and_never_go_back(void **state)
{
    (void)state;
    make("w");
    found.progress = (struct webhook_progress){.failures = 7,
                                               .failing_since_ms = 1795000000001,
                                               .next_try_ms = 1795000000002,
                                               .last_ms = 1795000000003,
                                               .last_status = 503,
                                               .last_answer = "it's \\ \"busy\"\n\xff;--"};
    note(120);
    note(110);
    look();
    assert_int_equal(found.progress.position, 120);
    assert_int_equal(found.progress.delivered, 6);
    assert_int_equal(found.progress.failures, 7);
    assert_true(found.progress.failing_since_ms == 1795000000001);
    assert_true(found.progress.next_try_ms == 1795000000002);
    assert_true(found.progress.last_ms == 1795000000003);
    assert_int_equal(found.progress.last_status, 503);
    assert_string_equal(found.progress.last_answer, "it's \\ \"busy\"??;--");
}

static void test_note_of_an_earlier_generation_changes_nothing(void **state)
{
    bool created = false;
    (void)state;
    make("w");
    assert_int_equal(ledger_webhook_replay(ledger, "w", 50, &bounds), LEDGER_OK);
    note(200);
    look();
    assert_int_equal(found.progress.position, 50);
    assert_int_equal(put("w", false, &created), LEDGER_OK);
    note(200);
    assert_int_equal(ledger_webhook_disable(ledger, &found, WEBHOOK_REASON_GONE), LEDGER_OK);
    look();
    assert_int_equal(found.progress.position, 50);
    assert_int_equal(found.state, WEBHOOK_ACTIVE);
    struct ledger_webhook old = found;
    assert_int_equal(ledger_webhook_delete(ledger, "w"), LEDGER_OK);
    make("w");
    assert_true(found.generation > old.generation);
}

static void test_replay_stays_within_the_feed(void **state)
{
    (void)state;
    make("w");
    assert_int_equal(ledger_webhook_replay(ledger, "w", 9, &bounds), LEDGER_LATE);
    assert_int_equal(bounds.oldest, 10);
    assert_int_equal(ledger_webhook_replay(ledger, "w", 101, &bounds), LEDGER_LATE);
    assert_int_equal(ledger_webhook_replay(ledger, "w", 100, &bounds), LEDGER_OK);
    assert_int_equal(ledger_webhook_replay(ledger, "w", 10, &bounds), LEDGER_OK);
    assert_int_equal(ledger_webhook_replay(ledger, "v", 10, &bounds), LEDGER_NO);
    look();
    assert_int_equal(found.progress.position, 10);
}

static void test_states_change_as_told(void **state)
{
    (void)state;
    make("w");
    found.progress.failures = 4;
    note(100);
    assert_int_equal(ledger_webhook_pause(ledger, "w"), LEDGER_OK);
    assert_int_equal(ledger_webhook_pause(ledger, "w"), LEDGER_OK);
    note(105); /* of requests that were under way */
    look();
    assert_int_equal(found.state, WEBHOOK_PAUSED);
    assert_int_equal(found.progress.position, 105);
    assert_int_equal(ledger_webhook_resume(ledger, "w"), LEDGER_OK);
    look();
    assert_int_equal(found.state, WEBHOOK_ACTIVE);
    assert_int_equal(found.progress.failures, 0);
    assert_int_equal(ledger_webhook_disable(ledger, &found, WEBHOOK_REASON_FAILING), LEDGER_OK);
    look();
    assert_int_equal(found.state, WEBHOOK_DISABLED);
    assert_int_equal(found.reason, WEBHOOK_REASON_FAILING);
    assert_int_equal(ledger_webhook_pause(ledger, "w"), LEDGER_OK);
    look();
    assert_int_equal(found.state, WEBHOOK_DISABLED);
    assert_int_equal(ledger_webhook_resume(ledger, "w"), LEDGER_OK);
    look();
    assert_int_equal(found.state, WEBHOOK_ACTIVE);
    assert_int_equal(found.reason, WEBHOOK_REASON_NONE);
    assert_int_equal(ledger_webhook_pause(ledger, "v"), LEDGER_NO);
    assert_int_equal(ledger_webhook_resume(ledger, "v"), LEDGER_NO);
    assert_int_equal(ledger_webhook_delete(ledger, "v"), LEDGER_NO);
}

static void test_list_has_all_that_make_sense_and_there_are_64(void **state)
{
    static struct ledger_webhook list[WEBHOOKS_MAX];
    char name[16];
    size_t count = 0;
    bool created = false;
    (void)state;
    for (int i = 0; i < WEBHOOKS_MAX; i++) {
        snprintf(name, sizeof name, "w%02d", i);
        make(name);
    }
    assert_int_equal(put("x", false, &created), LEDGER_LIMIT);
    assert_int_equal(put("w00", false, &created), LEDGER_OK);
    assert_int_equal(ledger_webhooks_list(ledger, list, &count), LEDGER_OK);
    assert_int_equal(count, WEBHOOKS_MAX);
    sql_server_do("UPDATE webhook SET types='order.paid,order.unknown' WHERE name='w01';"
                  "UPDATE webhook SET skus='a,b$' WHERE name='w02';"
                  "UPDATE webhook SET state='odd' WHERE name='w03';"
                  "UPDATE webhook SET batch=0 WHERE name='w04';"
                  "UPDATE webhook SET concurrency=99 WHERE name='w05'");
    assert_int_equal(ledger_webhooks_list(ledger, list, &count), LEDGER_OK);
    assert_int_equal(count, WEBHOOKS_MAX - 5);
    assert_string_equal(list[1].name, "w06");
    assert_int_equal(ledger_webhook_find(ledger, "w03", &found), LEDGER_DAMAGED);
}

#define TEST(name) cmocka_unit_test_setup(name, start)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_new_webhook_gets_the_events_from_now_on),
        TEST(test_largest_settings_are_kept),
        TEST(test_rotated_secret_goes_on_signing_for_a_day),
        TEST(test_notes_are_kept_and_never_go_back),
        TEST(test_note_of_an_earlier_generation_changes_nothing),
        TEST(test_replay_stays_within_the_feed),
        TEST(test_states_change_as_told),
        TEST(test_list_has_all_that_make_sense_and_there_are_64),
    };
    return cmocka_run_group_tests(tests, start_group, stop_group);
}

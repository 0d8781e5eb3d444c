/* Webhooks in the ledger: what operators set, what the sender notes, which of its notes count. */
#include "sql/events/webhooks.h"
#include "sql/test_server.h"

#define SECRET "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
#define NEW_SECRET "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

static struct ledger *ledger;
static struct ledger_webhook found;
static struct ledger_event_bounds bounds;
static char secret[WEBHOOK_SECRET_SIZE];

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

#define USUAL(name, min, max, usual) .name = usual,
static const struct webhook_settings plain = {.url = "https://example.com/it's\\me?a=%s",
                                              WEBHOOK_NUMBERS(USUAL)};

static enum ledger_result put(const char *name, bool rotate, bool *created)
{
    strcpy(secret, rotate ? NEW_SECRET : SECRET);
    return ledger_webhook_put(ledger, name, &plain, secret, rotate, created);
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
#define LARGEST(name, min, max, usual) .name = max,
    struct webhook_settings settings = {WEBHOOK_NUMBERS(LARGEST).types =
                                            (UINT32_C(1) << LEDGER_EVENT_TYPES) - 1,
                                        .cloudevents = true, .sku_count = WEBHOOK_SKUS_MAX};
    bool created = false;
    (void)state;
    memset(settings.url, 'u', WEBHOOK_URL_SIZE - 1);
    memset(settings.headers, 'h', WEBHOOK_HEADERS_SIZE - 1);
    strcpy(settings.headers, "A: it's \\ 1\nB");
    settings.headers[strlen(settings.headers)] = ':';
    for (size_t i = 0; i < WEBHOOK_SKUS_MAX; i++)
        snprintf(settings.skus[i], IDENTIFIER_SIZE, "%064zu", i);
    assert_int_equal(ledger_webhook_put(ledger, "w", &settings, secret, false, &created),
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

/* As when the answer to the first call was lost. */
static void test_repeated_rotation_gives_the_same_secret(void **state)
{
    bool created = false;
    (void)state;
    make("w");
    assert_int_equal(put("w", true, &created), LEDGER_OK);
    strcpy(secret, "BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB");
    assert_int_equal(ledger_webhook_put(ledger, "w", &plain, secret, true, &created), LEDGER_OK);
    assert_string_equal(secret, NEW_SECRET);
    look();
    assert_string_equal(found.secret, NEW_SECRET);
    assert_string_equal(found.old_secret, SECRET);
}

static void test_headers_stay_unless_they_are_given(void **state)
{
    struct webhook_settings settings = plain;
    bool created = false;
    (void)state;
    make("w");
    strcpy(settings.headers, "A: b\nC: d");
    assert_int_equal(ledger_webhook_put(ledger, "w", &settings, secret, false, &created),
                     LEDGER_OK);
    settings.headers[0] = '\0';
    settings.headers_stay = true;
    assert_int_equal(ledger_webhook_put(ledger, "w", &settings, secret, false, &created),
                     LEDGER_OK);
    look();
    assert_string_equal(found.settings.headers, "A: b\nC: d");
    assert_int_equal(put("w", false, &created), LEDGER_OK);
    look();
    assert_string_equal(found.settings.headers, "");
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
                                               .wait = WEBHOOK_WAIT_RETRY_AFTER,
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
    assert_int_equal(found.progress.wait, WEBHOOK_WAIT_RETRY_AFTER);
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

static void test_change_of_settings_ends_a_disabling_and_no_pause(void **state)
{
    bool created = false;
    (void)state;
    make("w");
    assert_int_equal(ledger_webhook_disable(ledger, &found, WEBHOOK_REASON_GONE), LEDGER_OK);
    assert_int_equal(put("w", false, &created), LEDGER_OK);
    look();
    assert_int_equal(found.state, WEBHOOK_ACTIVE);
    assert_int_equal(found.reason, WEBHOOK_REASON_NONE);
    assert_int_equal(ledger_webhook_pause(ledger, "w"), LEDGER_OK);
    assert_int_equal(put("w", false, &created), LEDGER_OK);
    look();
    assert_int_equal(found.state, WEBHOOK_PAUSED);
}

/* ---- requests set aside ---- */

static struct webhook_aside asides[WEBHOOK_UNDELIVERED_MAX];
static size_t aside_count;
static char aside_body[64];

static void visit(const struct webhook_aside *aside, void *context)
{
    (void)context;
    snprintf(aside_body, sizeof aside_body, "%s", aside->body);
    asides[aside_count++] = *aside;
}

static void expect_asides(bool all, size_t count)
{
    aside_count = 0;
    assert_int_equal(ledger_webhook_asides(ledger, "w", all, 20, visit, NULL), LEDGER_OK);
    assert_int_equal(aside_count, count);
}

static enum ledger_result set_aside(const char *id, int64_t given_up_ms, const char *body)
{
    struct webhook_aside aside = {.events = 2,
                                  .failing_since_ms = 1795000000001,
                                  .given_up_ms = given_up_ms,
                                  .answer = "500 it's\xff",
                                  .body = body};
    strcpy(aside.id, id);
    return ledger_webhook_set_aside(ledger, &found, &aside);
}

static void test_request_set_aside_is_given_up_and_replayed(void **state)
{
    (void)state;
    make("w");
    assert_int_equal(set_aside("evt_0_7", 0, "[{'\xc3\xa9\\}]"), LEDGER_OK);
    expect_asides(false, 1);
    assert_string_equal(asides[0].id, "evt_0_7");
    assert_int_equal(asides[0].events, 2);
    assert_true(asides[0].failing_since_ms == 1795000000001);
    assert_true(asides[0].given_up_ms == 0);
    assert_string_equal(asides[0].answer, "500 it's?");
    assert_string_equal(aside_body, "[{'\xc3\xa9\\}]");
    look();
    assert_int_equal(found.undelivered, 0);
    assert_true(found.retrying_since_ms == 1795000000001);
    assert_int_equal(ledger_webhook_resend(ledger, "w", "evt_0_7", false), LEDGER_NO);
    look(); /* nothing is changed */
    assert_int_equal(set_aside("evt_0_7", 1795000000009, "x"), LEDGER_OK);
    expect_asides(false, 0);
    expect_asides(true, 1);
    assert_true(asides[0].given_up_ms == 1795000000009);
    look();
    assert_int_equal(found.undelivered, 2);
    assert_true(found.retrying_since_ms == 0);
    uint64_t generation = found.generation;
    assert_int_equal(ledger_webhook_resend(ledger, "w", "evt_0_7", false), LEDGER_OK);
    expect_asides(false, 1);
    set_aside("evt_0_7", 1795000000009, "x"); /* by a former sender */
    expect_asides(false, 1);
    look();
    assert_true(found.generation > generation);
    assert_int_equal(ledger_webhook_delivered(ledger, &found, "evt_0_7"), LEDGER_OK);
    expect_asides(true, 0);
}

/* What has failed for days would be given up, or disabled, by the next failure. */
static void test_calls_of_operators_begin_the_tries_anew(void **state)
{
    bool created = false;
    (void)state;
    make("w");
    assert_int_equal(set_aside("evt_0_7", 1795000000009, "{}"), LEDGER_OK);
    for (int call = 0; call < 4; call++) {
        look();
        found.progress.failures = 4;
        found.progress.failing_since_ms = 1795000000001;
        found.progress.next_try_ms = 1795000000002;
        found.progress.wait = WEBHOOK_WAIT_RETRY_AFTER;
        note(100);
        uint64_t generation = found.generation;
        assert_int_equal(call == 0   ? ledger_webhook_resume(ledger, "w")
                         : call == 1 ? put("w", false, &created)
                         : call == 2 ? ledger_webhook_replay(ledger, "w", 100, &bounds)
                                     : ledger_webhook_resend(ledger, "w", "evt_0_7", false),
                         LEDGER_OK);
        look();
        assert_true(found.generation > generation);
        assert_int_equal(found.progress.failures, 0);
        assert_true(found.progress.failing_since_ms == 0 && found.progress.next_try_ms == 0);
        assert_int_equal(found.progress.wait, WEBHOOK_WAIT_NONE);
    }
    assert_true(found.retrying_since_ms > 0);
    assert_int_equal(sql_server_do("SELECT ABS(TIMESTAMPDIFF(MINUTE,failing_since,"
                                   "UTC_TIMESTAMP(3)))<2 FROM webhook_undelivered"),
                     1);
}

static void test_damaged_request_is_left_out(void **state)
{
    (void)state;
    make("w");
    assert_int_equal(set_aside("evt_0_7", 0, "{}"), LEDGER_OK);
    assert_int_equal(set_aside("evt_0_8", 0, "{}"), LEDGER_OK);
    sql_server_do("UPDATE webhook_undelivered SET id='a b' WHERE id='evt_0_7'");
    expect_asides(true, 1);
    assert_string_equal(asides[0].id, "evt_0_8");
    sql_server_do("UPDATE webhook_undelivered SET events=0");
    expect_asides(true, 0);
}

static void test_requests_set_aside_are_bounded(void **state)
{
    char id[WEBHOOK_ID_SIZE];
    (void)state;
    make("w");
    for (int i = 0; i < WEBHOOK_UNDELIVERED_MAX; i++) {
        snprintf(id, sizeof id, "evt_0_%d", i);
        assert_int_equal(set_aside(id, i < WEBHOOK_OPEN_MAX ? 0 : 1, "longer than 20 bytes"),
                         LEDGER_OK);
    }
    assert_int_equal(set_aside("evt_0_x", 0, "{}"), LEDGER_NO);
    assert_int_equal(set_aside("evt_0_1", 0, "{}"), LEDGER_OK); /* it is there already */
    expect_asides(true, WEBHOOK_UNDELIVERED_MAX);
    assert_int_equal(ledger_webhook_resend(ledger, "w", "evt_0_99", false), LEDGER_LIMIT);
    assert_int_equal(set_aside("evt_0_1", 1795000000009, "{}"), LEDGER_OK); /* and is given up */
    expect_asides(false, WEBHOOK_OPEN_MAX - 1);
    assert_int_equal(ledger_webhook_resend(ledger, "w", "evt_0_99", true), LEDGER_OK);
    assert_int_equal(ledger_webhook_resend(ledger, "w", "evt_0_99", true), LEDGER_NO);
    expect_asides(true, WEBHOOK_UNDELIVERED_MAX - 1);
    assert_int_equal(ledger_webhook_delete(ledger, "w"), LEDGER_OK);
    expect_asides(true, 0);
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
        TEST(test_repeated_rotation_gives_the_same_secret),
        TEST(test_headers_stay_unless_they_are_given),
        TEST(test_notes_are_kept_and_never_go_back),
        TEST(test_note_of_an_earlier_generation_changes_nothing),
        TEST(test_replay_stays_within_the_feed),
        TEST(test_states_change_as_told),
        TEST(test_change_of_settings_ends_a_disabling_and_no_pause),
        TEST(test_request_set_aside_is_given_up_and_replayed),
        TEST(test_calls_of_operators_begin_the_tries_anew),
        TEST(test_damaged_request_is_left_out),
        TEST(test_requests_set_aside_are_bounded),
        TEST(test_list_has_all_that_make_sense_and_there_are_64),
    };
    return cmocka_run_group_tests(tests, start_group, stop_group);
}

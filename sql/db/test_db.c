/* The database connection: urls, statements, transactions, commits without an answer. */
#include "sql/db/db_connection.h"
#include "sql/test_server.h"

#include <signal.h>
#include <time.h>

#include "base/fault.h"

static struct db *db;

static enum db_result query(struct db *on, const char *text)
{
    return db_query(on, text, strlen(text));
}

static int64_t number(struct db *on, const char *text)
{
    assert_int_equal(query(on, text), DB_OK);
    char **row = db_row(on);
    return row && row[0] ? strtoll(row[0], NULL, 10) : -1;
}

static int64_t rows(void)
{
    return sql_server_do("SELECT COUNT(*) FROM t");
}

static int start(void **state)
{
    (void)state;
    sql_server_do(
        "DROP TABLE IF EXISTS t;CREATE TABLE t(id INT PRIMARY KEY AUTO_INCREMENT, n INT NOT NULL)"
        "ENGINE=InnoDB");
    db = sql_server_open(sql_server_url());
    return 0;
}

static int finish(void **state)
{
    (void)state;
    db_close(&db);
    sql_server_do("DROP TABLE t");
    return 0;
}

/* ---- urls ---- */

static void accept_url(const char *url)
{
    char error[128];
    struct db *opened = db_open(url, 100, error, sizeof error);
    if (!opened)
        fail_msg("refused \"%s\": %s", url, error);
    assert_string_equal(db_error(opened), "");
    db_close(&opened);
    assert_null(opened);
}

static void refuse_url(const char *url)
{
    char error[128] = "";
    struct db *opened = db_open(url, 100, error, sizeof error);
    bool accepted = opened != NULL;
    db_close(&opened);
    if (accepted)
        fail_msg("accepted \"%s\"", url);
    assert_non_null(strstr(error, "mysql://"));
}

static void test_urls_of_the_form_are_taken(void **state)
{
    (void)state;
    static const char *const urls[] = {"mysql://u:p@h:3306/db", "mysql://u@h/db",
                                       "mysql://h/db",          "MYSQL://u:p@h/db",
                                       "mysql://u:%40%2f@h/db", "mysql://u:p@h/db?socket=/run/s",
                                       "mysql://u:@h:65535/d",  "mysql://u:a:b@h:1/my_db"};
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        accept_url(urls[i]);
}

static void test_other_urls_are_refused(void **state)
{
    (void)state;
    static const char *const urls[] = {
        "",
        "h/db",
        "postgres://h/db",
        "mysql:/h/db",
        "mysql://h",
        "mysql://h/",
        "mysql://u:p@h",
        "mysql://h:/db",
        "mysql://h:0/db",
        "mysql://h:65536/db",
        "mysql://h:x/db",
        "mysql://h:1x/db",
        "mysql://h:-1/db",
        "mysql://h:1:2/db",
        "mysql://u:%@h/db",
        "mysql://u:%4@h/db",
        "mysql://u:%zz@h/db",
        "mysql://u:%00@h/db",
        "mysql://h/db?",
        "mysql://h/db?sock=/s",
        "mysql://h/?socket=/s",
    };
    for (size_t i = 0; i < sizeof urls / sizeof *urls; i++)
        refuse_url(urls[i]);
}

static void test_url_too_long_is_refused(void **state)
{
    (void)state;
    char url[600];
    snprintf(url, sizeof url, "mysql://u:%0300d@h/db", 0);
    refuse_url(url);
    snprintf(url, sizeof url, "mysql://%0300d/db", 0);
    refuse_url(url);
    snprintf(url, sizeof url, "mysql://h/%0300d", 0);
    refuse_url(url);
}

static void test_percent_takes_two_hex_digits_alone(void **state)
{
    (void)state;
    refuse_url("mysql://u:%4g@h/db");
    refuse_url("mysql://u:%-1@h/db");
    refuse_url("mysql://u:%+1@h/db");
    refuse_url("mysql://u:% 1@h/db");
}

static void test_at_sign_in_the_socket_path_belongs_to_it(void **state)
{
    (void)state;
    struct db *lost = sql_server_open("mysql://u:p@h/db?socket=/none/a@127.0.0.1:1/s");
    assert_int_equal(db_connect(lost), DB_FAILED);
    assert_non_null(strstr(db_error(lost), "/none/a@127.0.0.1:1/s"));
    db_close(&lost);
}

/* ---- connecting ---- */

static void test_session_is_utc_strict_and_read_committed(void **state)
{
    (void)state;
    assert_int_equal(number(db, "SELECT @@session.time_zone='+00:00'"), 1);
    assert_int_equal(number(db, "SELECT @@session.sql_mode LIKE '%STRICT_ALL_TABLES%'"), 1);
    assert_int_equal(number(db, "SELECT @@session.autocommit"), 1);
    assert_int_equal(query(db, "SHOW VARIABLES WHERE Variable_name IN('tx_isolation',"
                               "'transaction_isolation') AND Value='READ-COMMITTED'"),
                     DB_OK);
    assert_non_null(db_row(db));
}

/* The value of a variable or a status of the session; "" when the server does not know it. */
static const char *shown(const char *what, const char *name)
{
    char text[128];
    snprintf(text, sizeof text, "SHOW SESSION %s LIKE '%s'", what, name);
    assert_int_equal(query(db, text), DB_OK);
    char **row = db_row(db);
    return row ? row[1] : "";
}

/* MariaDB has it on from 11.6.2 on: a statement then fails where another server waits. */
static void test_session_locks_rows_that_changed_since_its_snapshot(void **state)
{
    (void)state;
    assert_string_not_equal(shown("VARIABLES", "innodb_snapshot_isolation"), "ON");
}

/* MariaDB offers TLS by itself from 11.4 on, and client libraries differ in what they do then. */
static void test_mysql_url_leads_past_tls(void **state)
{
    (void)state;
    assert_string_equal(shown("STATUS", "Ssl_cipher"), "");
}

static void test_failed_connect_backs_off(void **state)
{
    (void)state;
    struct db *wrong = sql_server_open("mysql://nobody:x@127.0.0.1:1/none");
    assert_int_equal(db_connect(wrong), DB_FAILED);
    assert_int_equal(db_stats(wrong).failures, 1);
    assert_string_not_equal(db_error(wrong), "");
    assert_int_equal(db_connect(wrong), DB_FAILED);
    assert_int_equal(db_ping(wrong), DB_FAILED);
    assert_int_equal(db_stats(wrong).failures, 1);
    nanosleep(&(struct timespec){.tv_nsec = 25000000}, NULL);
    assert_int_equal(db_connect(wrong), DB_FAILED);
    assert_int_equal(db_stats(wrong).failures, 2);
    db_close(&wrong);
}

static void test_wrong_password_fails_the_connect(void **state)
{
    (void)state;
    struct sql_wire wire;
    char url[600];
    sql_wire_open(&wire);
    snprintf(url, sizeof url, "mysql://seckill:wrong@%s", strrchr(wire.url, '@') + 1);
    struct db *wrong = sql_server_open(url);
    assert_int_equal(db_connect(wrong), DB_FAILED);
    assert_non_null(strstr(db_error(wrong), "1045"));
    db_close(&wrong);
    sql_wire_close(&wire);
}

static int64_t connection_id(struct db *on)
{
    return number(on, "SELECT CONNECTION_ID()");
}

static void test_lost_connection_is_in_doubt_and_made_again(void **state)
{
    (void)state;
    assert_int_equal(query(db, "INSERT INTO t(n)VALUES(1);KILL CONNECTION_ID()"), DB_FAILED);
    assert_true(db_in_doubt(db));
    assert_int_equal(query(db, "INSERT INTO t(n)VALUES(2)"), DB_OK);
    assert_false(db_in_doubt(db));
    assert_int_equal(db_stats(db).connects, 2);
    assert_int_equal(db_stats(db).failures, 1);
}

static void test_connection_that_its_server_ended_is_made_again_before_a_statement(void **state)
{
    (void)state;
    sql_server_do("KILL %lld", (long long)connection_id(db));
    struct pollfd end = {.fd = (int)db->mysql->net.fd, .events = POLLIN};
    assert_int_equal(poll(&end, 1, 5000), 1);
    assert_int_equal(query(db, "INSERT INTO t(n)VALUES(1)"), DB_OK);
    assert_false(db_in_doubt(db));
    assert_int_equal(db_stats(db).connects, 2);
    assert_int_equal(db_stats(db).failures, 0);
    assert_int_equal(rows(), 1);
}

static void test_never_connected_is_not_in_doubt(void **state)
{
    (void)state;
    struct db *wrong = sql_server_open("mysql://nobody:x@127.0.0.1:1/none");
    assert_int_equal(query(wrong, "DO 1"), DB_FAILED);
    assert_false(db_in_doubt(wrong));
    db_close(&wrong);
}

/* ---- statements ---- */

static void test_many_statements_count_their_rows_one_by_one(void **state)
{
    (void)state;
    assert_int_equal(db_connect(db), DB_OK);
    assert_int_equal(query(db, "INSERT INTO t(n)VALUES(1),(2),(3);UPDATE t SET n=9 WHERE n>1;"
                               "DELETE FROM t WHERE n=0;UPDATE t SET n=9;SELECT n FROM t"),
                     DB_OK);
    assert_int_equal(db_affected(db, 0), 3);
    assert_int_equal(db_affected(db, 1), 2);
    assert_int_equal(db_affected(db, 2), 0);
    assert_int_equal(db_affected(db, 3), 1); /* two were 9 already */
    assert_int_equal(db_affected(db, 5), 0);
    assert_int_equal(db_affected(db, DB_STATEMENTS_MAX), 0);
}

static void test_first_query_of_a_connection_counts_its_own_rows_alone(void **state)
{
    (void)state;
    assert_int_equal(query(db, "INSERT INTO t(n)VALUES(1),(2),(3);DO 0"), DB_OK);
    assert_int_equal(db_affected(db, 0), 3);
    assert_int_equal(db_affected(db, 1), 0);
}

static void test_rows_are_those_of_the_last_statement_that_has_any(void **state)
{
    (void)state;
    assert_int_equal(query(db, "SELECT 1;SELECT 2,NULL UNION ALL SELECT 3,'x';DO 0"), DB_OK);
    char **row = db_row(db);
    assert_string_equal(row[0], "2");
    assert_null(row[1]);
    row = db_row(db);
    assert_string_equal(row[0], "3");
    assert_string_equal(row[1], "x");
    assert_null(db_row(db));
    assert_int_equal(query(db, "DO 0"), DB_OK);
    assert_null(db_row(db));
}

static void test_statements_stop_at_the_first_that_fails(void **state)
{
    (void)state;
    assert_int_equal(query(db, "INSERT INTO t(n)VALUES(1);BAD;INSERT INTO t(n)VALUES(2)"),
                     DB_FAILED);
    assert_non_null(strstr(db_error(db), "1064"));
    assert_false(db_in_doubt(db));
    assert_int_equal(rows(), 1);
    assert_int_equal(query(db, "INSERT INTO t(n)VALUES(3)"), DB_OK);
    assert_int_equal(db_stats(db).connects, 1);
}

/* The second row cannot be made: the server has answered with the columns by then. */
/* The text is not ended by a NUL, and what lies behind it is none of its own. */
static void test_fault_names_what_the_statement_says_and_nothing_behind_it(void **state)
{
    (void)state;
    static const char text[] = "BOGUS 1 FROM elsewhere";
    fault_clear(db_fault(db));
    assert_int_equal(db_query(db, text, strlen("BOGUS 1")), DB_FAILED);
    assert_int_equal(db_fault(db)->count, 1);
    assert_string_equal(db_fault(db)->doing, "BOGUS");
    assert_int_equal(db_query(db, text, strlen(text)), DB_FAILED);
    assert_string_equal(db_fault(db)->doing, "BOGUS elsewhere");
}

static void test_rows_that_break_off_are_no_empty_result(void **state)
{
    (void)state;
    static const char text[] = "SELECT (SELECT b.id FROM t b WHERE b.id<=a.id) FROM t a";
    assert_int_equal(query(db, "INSERT INTO t(n)VALUES(1),(2)"), DB_OK);
    assert_int_equal(query(db, text), DB_FAILED);
    assert_null(db_row(db));
    assert_int_equal(strncmp(db_error(db), "1242", 4), 0);
}

static void test_duplicate_alone_changes_nothing(void **state)
{
    (void)state;
    assert_int_equal(query(db, "INSERT INTO t(id,n)VALUES(1,1)"), DB_OK);
    assert_int_equal(query(db, "INSERT INTO t(id,n)VALUES(2,1),(1,1)"), DB_DUPLICATE);
    assert_int_equal(rows(), 1);
}

/* ---- transactions ---- */

struct plan {
    const char *text;
    enum db_result give; /* when the text went well */
    int calls;
};

static enum db_result follow(struct db *on, void *context)
{
    struct plan *plan = context;
    plan->calls++;
    enum db_result result = query(on, plan->text);
    return result == DB_OK ? plan->give : result;
}

static enum db_result run_all(struct db *on, enum db_result (*body)(struct db *on, void *context),
                              void *context)
{
    struct db_run run = {0};
    while (db_run(on, &run))
        run.result = body(on, context);
    return run.result;
}

static void test_run_commits_what_its_body_did(void **state)
{
    (void)state;
    struct plan plan = {.text = "INSERT INTO t(n)VALUES(1);INSERT INTO t(n)VALUES(2)"};
    assert_int_equal(run_all(db, follow, &plan), DB_OK);
    assert_int_equal(plan.calls, 1);
    assert_int_equal(rows(), 2);
    assert_int_equal(db_affected(db, 1), 1); /* the transaction's beginning is not counted */
}

static void test_refusal_of_the_body_rolls_back(void **state)
{
    (void)state;
    struct plan plan = {.text = "INSERT INTO t(n)VALUES(1)", .give = DB_NO};
    assert_int_equal(run_all(db, follow, &plan), DB_NO);
    assert_int_equal(plan.calls, 1);
    assert_int_equal(rows(), 0);
}

static void test_duplicate_and_failure_roll_back(void **state)
{
    (void)state;
    struct plan twice = {.text = "INSERT INTO t(id,n)VALUES(1,1);INSERT INTO t(id,n)VALUES(1,1)"};
    struct plan bad = {.text = "INSERT INTO t(id,n)VALUES(2,1);BAD"};
    assert_int_equal(run_all(db, follow, &twice), DB_DUPLICATE);
    assert_int_equal(run_all(db, follow, &bad), DB_FAILED);
    assert_int_equal(twice.calls + bad.calls, 2);
    assert_int_equal(query(db, "INSERT INTO t(id,n)VALUES(3,1)"), DB_OK); /* by itself again */
    assert_int_equal(rows(), 1);
    assert_int_equal(db_stats(db).connects, 1);
}

static void test_soft_failure_is_tried_five_times(void **state)
{
    (void)state;
    struct plan plan = {.text = "INSERT INTO t(n)VALUES(1)", .give = DB_SOFT};
    assert_int_equal(run_all(db, follow, &plan), DB_FAILED);
    assert_int_equal(plan.calls, 5);
    assert_int_equal(db_stats(db).retries, 4);
    assert_int_equal(rows(), 0);
}

struct rival {
    struct db *db;
    pthread_barrier_t *both_hold_one;
    int first, second;
    int calls;
    enum db_result result;
};

static enum db_result lock_two(struct db *on, void *context)
{
    struct rival *rival = context;
    char text[64];
    snprintf(text, sizeof text, "UPDATE t SET n=n+1 WHERE id=%d", rival->first);
    enum db_result result = query(on, text);
    if (rival->calls++ == 0)
        pthread_barrier_wait(rival->both_hold_one);
    snprintf(text, sizeof text, "UPDATE t SET n=n+1 WHERE id=%d", rival->second);
    return result == DB_OK ? query(on, text) : result;
}

static void *run_rival(void *argument)
{
    struct rival *rival = argument;
    rival->result = run_all(rival->db, lock_two, rival);
    return NULL;
}

static void test_deadlock_is_tried_again_until_both_are_done(void **state)
{
    (void)state;
    pthread_t thread;
    pthread_barrier_t barrier;
    struct db *other = sql_server_open(sql_server_url());
    pthread_barrier_init(&barrier, NULL, 2);
    sql_server_do("INSERT INTO t(id,n)VALUES(1,0),(2,0)");
    struct rival a = {.db = db, .both_hold_one = &barrier, .first = 1, .second = 2};
    struct rival b = {.db = other, .both_hold_one = &barrier, .first = 2, .second = 1};
    assert_int_equal(pthread_create(&thread, NULL, run_rival, &b), 0);
    run_rival(&a);
    pthread_join(thread, NULL);
    assert_int_equal(a.result, DB_OK);
    assert_int_equal(b.result, DB_OK);
    assert_true(db_stats(db).retries + db_stats(other).retries >= 1);
    assert_int_equal(sql_server_do("SELECT SUM(n) FROM t"), 4);
    pthread_barrier_destroy(&barrier);
    db_close(&other);
}

/* ---- connections lost in a transaction ---- */

static enum db_result lose_connection(struct db *on, void *context)
{
    struct plan *plan = context;
    plan->calls++;
    assert_int_equal(query(on, plan->text), DB_OK);
    sql_server_do("KILL %lld", (long long)connection_id(on));
    if (plan->give == DB_OK)
        return DB_OK; /* the commit notices the loss */
    assert_int_equal(query(on, "INSERT INTO t(n)VALUES(2)"), DB_FAILED);
    assert_int_equal(query(on, "INSERT INTO t(n)VALUES(3)"), DB_FAILED); /* nothing reconnects */
    return DB_FAILED;
}

static void test_run_does_not_go_on_over_another_connection(void **state)
{
    (void)state;
    struct plan plan = {.text = "INSERT INTO t(n)VALUES(1)", .give = DB_FAILED};
    assert_int_equal(run_all(db, lose_connection, &plan), DB_FAILED);
    assert_int_equal(plan.calls, 1);
    assert_int_equal(db_stats(db).connects, 1);
    assert_int_equal(rows(), 0);
    assert_int_equal(db_ping(db), DB_OK);
    assert_int_equal(db_stats(db).connects, 2);
}

struct losses {
    int calls;
    int lost; /* how many calls, from the first on, lose their connection */
};

static enum db_result lose_some(struct db *on, void *context)
{
    struct losses *losses = context;
    if (losses->calls++ < losses->lost)
        sql_server_do("KILL %lld", (long long)connection_id(on));
    return query(on, "INSERT INTO t(n)VALUES(1)");
}

static void test_connection_lost_before_the_commit_is_tried_once_more(void **state)
{
    (void)state;
    struct losses once = {.lost = 1}, twice = {.lost = 2};
    assert_int_equal(run_all(db, lose_some, &once), DB_OK);
    assert_int_equal(once.calls, 2);
    assert_int_equal(rows(), 1);
    assert_int_equal(run_all(db, lose_some, &twice), DB_FAILED);
    assert_int_equal(twice.calls, 2);
    assert_int_equal(rows(), 1);
}

static void test_commit_on_a_killed_connection_is_unknown(void **state)
{
    (void)state;
    struct plan plan = {.text = "INSERT INTO t(n)VALUES(1)", .give = DB_OK};
    assert_int_equal(run_all(db, lose_connection, &plan), DB_UNKNOWN);
    assert_int_equal(plan.calls, 1);
    assert_int_equal(rows(), 0);
}

static int64_t run_over_wire(enum sql_wire_fault fault)
{
    struct sql_wire wire;
    struct plan plan = {.text = "INSERT INTO t(n)VALUES(1)"};
    sql_wire_open(&wire);
    struct db *over = sql_server_open(wire.url);
    assert_int_equal(db_ping(over), DB_OK);
    atomic_store(&wire.fault, fault);
    assert_int_equal(run_all(over, follow, &plan), fault == WIRE_WHOLE ? DB_OK : DB_UNKNOWN);
    assert_int_equal(plan.calls, 1); /* an unknown commit is never tried again */
    assert_int_equal(db_ping(over), DB_OK);
    db_close(&over);
    sql_wire_close(&wire);
    return rows();
}

static void test_commit_without_an_answer_is_unknown_and_may_be_done(void **state)
{
    (void)state;
    assert_int_equal(run_over_wire(WIRE_WHOLE), 1);
    assert_int_equal(run_over_wire(WIRE_LOSES_ANSWER), 2);
}

static void test_commit_that_never_arrived_is_unknown_and_not_done(void **state)
{
    (void)state;
    assert_int_equal(run_over_wire(WIRE_LOSES_COMMIT), 0);
}

/* Of all errors only a deadlock or a lock wait says that nothing was committed. */
static void test_commit_that_the_server_calls_an_error_is_unknown(void **state)
{
    (void)state;
    assert_int_equal(run_over_wire(WIRE_SAYS_ERROR), 1);
}

/* ---- writes without an answer ---- */

static void await_answers(void)
{
    enum { PAUSE_NS = 5000000, PAUSES_MAX = 4000 };
    struct db_wait wait = {.count = 1};
    for (int i = 0; i < PAUSES_MAX && wait.count > 0; i++) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        wait = db_wait(db);
    }
    assert_int_equal(wait.count, 0);
}

/* Each leaves a session behind that the server keeps. */
static void leave_writes(void)
{
    int was_ms = db_set_timeout(db, 30);
    for (int i = 0; i < DB_WAITS_MAX; i++) {
        assert_int_equal(query(db, "INSERT INTO t(n)VALUES(1)"), DB_FAILED);
        assert_true(db_in_doubt(db));
    }
    db_set_timeout(db, was_ms);
}

static void test_server_that_answers_no_write_is_left_few_sessions(void **state)
{
    (void)state;
    db_close(&db);
    db = sql_server_open(sql_server_url());
    db_set_row_wait(db, 1);
    struct plan plan = {.text = "INSERT INTO t(n)VALUES(2)"};
    struct db_wait wait;
    struct db *locker = sql_server_open(sql_server_url());
    assert_int_equal(query(locker, "LOCK TABLES t WRITE"), DB_OK);
    leave_writes();
    wait = db_wait(db);
    assert_int_equal(wait.count, DB_WAITS_MAX);
    assert_true(wait.ms >= 30);
    assert_int_equal(wait.full, wait.ms > 2000); /* they may wait for a row */
    while (!wait.full) {
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        wait = db_wait(db);
    }

    assert_int_equal(query(db, "INSERT INTO t(n)VALUES(2)"), DB_FAILED);
    assert_false(db_in_doubt(db));
    assert_non_null(strstr(db_error(db), "8 writes wait for an answer of "));
    assert_int_equal(run_all(db, follow, &plan), DB_FAILED);
    assert_int_equal(plan.calls, 0);
    /* Reads go on. */
    assert_int_equal(number(db, "SELECT COUNT(*) FROM information_schema.processlist "
                                "WHERE info LIKE 'INSERT INTO t%'"),
                     DB_WAITS_MAX);

    assert_int_equal(query(locker, "UNLOCK TABLES"), DB_OK);
    await_answers();
    assert_int_equal(run_all(db, follow, &plan), DB_OK);
    assert_int_equal(rows(), DB_WAITS_MAX + 1);
    db_close(&locker);
}

static void test_read_without_an_answer_holds_up_no_write(void **state)
{
    (void)state;
    int was_ms = db_set_timeout(db, 30);
    assert_int_equal(query(db, "SELECT SLEEP(1)"), DB_FAILED);
    assert_int_equal(db_wait(db).count, 0);
    db_set_timeout(db, was_ms);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, start, finish)

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_urls_of_the_form_are_taken),
        cmocka_unit_test(test_other_urls_are_refused),
        cmocka_unit_test(test_url_too_long_is_refused),
        cmocka_unit_test(test_percent_takes_two_hex_digits_alone),
        cmocka_unit_test(test_at_sign_in_the_socket_path_belongs_to_it),
        TEST(test_session_is_utc_strict_and_read_committed),
        TEST(test_session_locks_rows_that_changed_since_its_snapshot),
        TEST(test_mysql_url_leads_past_tls),
        TEST(test_failed_connect_backs_off),
        TEST(test_wrong_password_fails_the_connect),
        TEST(test_lost_connection_is_in_doubt_and_made_again),
        TEST(test_connection_that_its_server_ended_is_made_again_before_a_statement),
        TEST(test_never_connected_is_not_in_doubt),
        TEST(test_many_statements_count_their_rows_one_by_one),
        TEST(test_first_query_of_a_connection_counts_its_own_rows_alone),
        TEST(test_rows_are_those_of_the_last_statement_that_has_any),
        TEST(test_statements_stop_at_the_first_that_fails),
        TEST(test_fault_names_what_the_statement_says_and_nothing_behind_it),
        TEST(test_rows_that_break_off_are_no_empty_result),
        TEST(test_duplicate_alone_changes_nothing),
        TEST(test_run_commits_what_its_body_did),
        TEST(test_refusal_of_the_body_rolls_back),
        TEST(test_duplicate_and_failure_roll_back),
        TEST(test_soft_failure_is_tried_five_times),
        TEST(test_deadlock_is_tried_again_until_both_are_done),
        TEST(test_run_does_not_go_on_over_another_connection),
        TEST(test_connection_lost_before_the_commit_is_tried_once_more),
        TEST(test_commit_on_a_killed_connection_is_unknown),
        TEST(test_commit_without_an_answer_is_unknown_and_may_be_done),
        TEST(test_commit_that_never_arrived_is_unknown_and_not_done),
        TEST(test_commit_that_the_server_calls_an_error_is_unknown),
        TEST(test_server_that_answers_no_write_is_left_few_sessions),
        TEST(test_read_without_an_answer_holds_up_no_write),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

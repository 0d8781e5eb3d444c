/* Which of several servers to write to, and clients of a list of them. */
#include "sql/test_server.h"

#include <signal.h>

#include "base/clock.h"
#include "base/url.h"
#include "sql/db/db_connection.h"
#include "sql/db/db_servers.h"

/* ---- the choice ---- */

static struct db_role role(bool writable, const char *server, const char *cluster)
{
    struct db_role made = {.answers = true, .writable = writable};
    snprintf(made.server, sizeof made.server, "%s", server);
    snprintf(made.cluster, sizeof made.cluster, "%s", cluster);
    return made;
}

static void expect(const struct db_role *roles, size_t count, int place, bool split)
{
    bool found_split = !split;
    assert_int_equal(db_role_choose(roles, count, &found_split), place);
    assert_int_equal(found_split, split);
}

static void test_only_one_takes_writes(void **state)
{
    (void)state;
    struct db_role none[] = {role(false, "a", ""), {.answers = false}};
    struct db_role second[] = {role(false, "a", ""), role(true, "b", "")};
    expect(none, 2, -1, false);
    expect(second, 2, 1, false);
}

static void test_two_primaries_are_split(void **state)
{
    (void)state;
    struct db_role two[] = {role(false, "a", ""), role(true, "b", ""), role(true, "c", "")};
    struct db_role with_a_cluster[] = {role(true, "a", "one:1"), role(true, "b", "")};
    expect(two, 3, -1, true);
    expect(with_a_cluster, 2, -1, true);
}

static void test_one_server_by_two_names_is_one(void **state)
{
    (void)state;
    struct db_role twice[] = {role(true, "a", ""), role(true, "a", "")};
    expect(twice, 2, 0, false);
}

static void test_first_node_of_a_cluster(void **state)
{
    (void)state;
    struct db_role nodes[] = {role(false, "a", "one:3"), role(true, "b", "one:3"),
                              role(true, "c", "one:3")};
    struct db_role halves[] = {role(true, "a", "one:3"), role(true, "b", "one:4")};
    expect(nodes, 3, 1, false);
    expect(halves, 2, -1, true);
    assert_true(db_role_one_cluster(nodes, 3));
    assert_true(db_role_one_cluster(halves, 2));
    struct db_role strangers[] = {role(true, "a", "one:3"), role(true, "b", "one2:3"),
                                  role(true, "c", "")};
    assert_false(db_role_one_cluster(strangers, 2));
    assert_false(db_role_one_cluster(strangers, 3));
    strangers[1].writable = strangers[2].writable = false;
    assert_true(db_role_one_cluster(strangers, 3));
}

/* A donor lags; but nothing is sold while there is no writer. */
static void test_node_that_lags_is_the_last_resort(void **state)
{
    (void)state;
    struct db_role nodes[] = {role(true, "a", "one:3"), role(true, "b", "one:3"),
                              role(true, "c", "one:3")};
    nodes[0].lags = nodes[2].lags = true;
    expect(nodes, 3, 1, false);
    nodes[1].writable = false;
    expect(nodes, 3, 0, false);
    nodes[0].writable = false;
    expect(nodes, 3, 2, false);
    struct db_role halves[] = {role(true, "a", "one:3"), role(true, "b", "one:4")};
    halves[0].lags = true;
    expect(halves, 2, -1, true);
}

/* ---- clients ---- */

static char server[128]; /* its host and port */

/* The real server's URL with `list` in place of its host and port, for which $ stands. */
static const char *url_of(const char *list)
{
    static char url[600];
    char before[128], behind[128], servers[300];
    int fields =
        sscanf(sql_server_url(), "mysql://%127[^@]@%127[^/]/%127[^?]", before, server, behind);
    assert_int_equal(fields, 3);
    char *filled = servers;
    for (const char *at = list; *at; at++)
        if (*at == '$')
            filled += sprintf(filled, "%s", server);
        else
            *filled++ = *at;
    *filled = '\0';
    snprintf(url, sizeof url, "mysql://%s@%s/%s", before, servers, behind);
    return url;
}

static struct db *open_list(const char *list)
{
    return sql_server_open(url_of(list));
}

static void test_servers_that_are_away_are_passed_over(void **state)
{
    (void)state;
    struct db *db = open_list("127.0.0.1:1,$,127.0.0.1:2");
    assert_int_equal(db_server_count(db), 3);
    assert_int_equal(db_query(db, "SELECT 1", 8), DB_OK);
    assert_string_equal(db_server(db), server);
    assert_int_equal(db_stats(db).connects, 1);
    assert_false(db_split(db));
    db_close(&db);
}

static void test_same_server_twice_is_no_split(void **state)
{
    (void)state;
    struct db *db = open_list("$,$");
    assert_int_equal(db_query(db, "SELECT 1", 8), DB_OK);
    db_look(db);
    assert_false(db_split(db));
    db_close(&db);
}

/* Each half was made primary by hand. Nodes of one cluster hear of a change one after the other, so
 * the first look may have come amid one. */
static void test_halves_of_a_cluster_are_split_at_the_second_look(void **state)
{
    (void)state;
    enum { LOOKS_MAX = 4 };
    struct sql_wire wires[2];
    char list[1200];
    for (int i = 0; i < 2; i++) {
        sql_wire_open(&wires[i]);
        atomic_store(&wires[i].half, i + 1);
    }
    const char *database = strrchr(wires[0].url, '/'), *second = strchr(wires[1].url, '@') + 1;
    snprintf(list, sizeof list, "%.*s,%s", (int)(database - wires[0].url), wires[0].url, second);
    struct db *db = sql_server_open(list);
    assert_int_equal(db_query(db, "SELECT 1", 8), DB_FAILED);
    assert_true(!db_split(db) || atomic_load(&wires[0].looks) > 1);
    while (!db_split(db) && atomic_load(&wires[0].looks) < LOOKS_MAX)
        assert_int_equal(db_query(db, "SELECT 1", 8), DB_FAILED);
    assert_true(db_split(db));
    db_close(&db);
    for (int i = 0; i < 2; i++)
        sql_wire_close(&wires[i]);
}

static void test_nobody_there_says_who(void **state)
{
    (void)state;
    struct db *db = open_list("127.0.0.1:1,127.0.0.1:2");
    assert_int_equal(db_query(db, "SELECT 1", 8), DB_FAILED);
    assert_non_null(strstr(db_error(db), "127.0.0.1:1 "));
    assert_non_null(strstr(db_error(db), "127.0.0.1:2 "));
    db_close(&db);
}

/* The wire carries one connection, which is that of the look: the server is known to write to, and
 * whoever connects hears nothing. */
static void test_a_connect_has_one_time_for_all_that_it_tries(void **state)
{
    (void)state;
    enum { TIMEOUT_MS = 6000, BOUND_MS = 10500 };
    struct sql_wire wire;
    char list[600], error[128];
    sql_wire_open(&wire);
    const char *database = strrchr(wire.url, '/');
    snprintf(list, sizeof list, "%.*s,127.0.0.1:1%s", (int)(database - wire.url), wire.url,
             database);
    struct db *first = db_open(list, 100, error, sizeof error);
    struct db *db = db_open(list, TIMEOUT_MS, error, sizeof error);
    uint64_t number = 0;
    do
        assert_int_equal(db_query(first, "SELECT 1", 8), DB_FAILED);
    while (db_servers_present(first->servers, &number) < 0);
    int64_t began_ms = clock_now_ms();
    assert_int_equal(db_query(db, "SELECT 1", 8), DB_FAILED);
    assert_int_in_range(clock_now_ms() - began_ms, 0, BOUND_MS);
    db_close(&first);
    db_close(&db);
    sql_wire_close(&wire);
}

/* Whatever the others know: a client that closes while a look is under way waits for it. */
static void test_clients_come_and_go(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        struct db *one = open_list("$,127.0.0.1:1"), *other = open_list("$,127.0.0.1:1");
        db_look(one);
        if (i % 2 == 0)
            assert_int_equal(db_query(other, "SELECT 1", 8), DB_OK);
        db_close(&one);
        db_close(&other);
    }
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_only_one_takes_writes),
        cmocka_unit_test(test_two_primaries_are_split),
        cmocka_unit_test(test_one_server_by_two_names_is_one),
        cmocka_unit_test(test_first_node_of_a_cluster),
        cmocka_unit_test(test_node_that_lags_is_the_last_resort),
        cmocka_unit_test(test_servers_that_are_away_are_passed_over),
        cmocka_unit_test(test_same_server_twice_is_no_split),
        cmocka_unit_test(test_halves_of_a_cluster_are_split_at_the_second_look),
        cmocka_unit_test(test_nobody_there_says_who),
        cmocka_unit_test(test_a_connect_has_one_time_for_all_that_it_tries),
        cmocka_unit_test(test_clients_come_and_go),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

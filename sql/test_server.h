/* For unit tests: the real server that they run against, and a wire to it that breaks in a commit.
 */
#ifndef SQL_TEST_SERVER_H
#define SQL_TEST_SERVER_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <arpa/inet.h>
#include <assert.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "base/test_range.h"
#include "sql/db/db.h"
#include "sql/orders/orders.h"
#include "sql/server/server.h"

/* The server's url; fails the test when the environment does not say it. */
static inline const char *sql_server_url(void)
{
    const char *url = getenv("SECKILL_MYSQL_URL");
    if (!url)
        fail_msg("SECKILL_MYSQL_URL is not set: these tests need a database of their own "
                 "(deploy/stack up DIR prints its address)");
    return url;
}

static inline struct db *sql_server_open(const char *url)
{
    char error[128];
    struct db *db = db_open(url, 5000, error, sizeof error);
    if (!db)
        fail_msg("%s: %s", url, error);
    return db;
}

/* Runs statements on a connection of its own and gives a column of the first row as a number; -1
 * when there is none. */
static inline int64_t sql_server_number(const char *text, int column)
{
    struct db *db = sql_server_open(sql_server_url());
    if (db_query(db, text, strlen(text)) != DB_OK)
        fail_msg("%s: %s", text, db_error(db));
    char **row = db_row(db);
    int64_t number = row && row[column] ? strtoll(row[column], NULL, 10) : -1;
    db_close(&db);
    return number;
}

/* The same of the first column. */
static inline int64_t __attribute__((format(printf, 1, 2))) sql_server_do(const char *format, ...)
{
    char text[4096];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    return sql_server_number(text, 0);
}

/* Makes the database anew: no tables. */
static inline void sql_server_clear(void)
{
    char text[256];
    struct db *db = sql_server_open(sql_server_url());
    if (db_query(db, "SELECT DATABASE()", 17) != DB_OK)
        fail_msg("the database does not answer: %s", db_error(db));
    const char *name = db_row(db)[0];
    int length = snprintf(text, sizeof text, "DROP DATABASE `%s`;CREATE DATABASE `%s`", name, name);
    assert_int_equal(db_query(db, text, (size_t)length), DB_OK);
    db_close(&db);
}

/* A table of the numbers from 1 to %d, in its column seq. */
#define SQL_NUMBERS                                                                                \
    "JSON_TABLE(CONCAT('[0',REPEAT(',0',%d-1),']'),'$[*]'COLUMNS(seq FOR ORDINALITY))numbers"

/* Empties the tables of the ledger. */
static inline void sql_server_empty(void)
{
    sql_server_do("DELETE FROM sale;DELETE FROM stock_segment;DELETE FROM orders;"
                  "DELETE FROM order_key;"
                  "DELETE FROM order_expiry;DELETE FROM user_quota;DELETE FROM quota_count;"
                  "DELETE FROM restock;DELETE FROM sale_round;DELETE FROM sale_reset;"
                  "DELETE FROM round_end;DELETE FROM payment;DELETE FROM refund_due;"
                  "DELETE FROM unpaid_count;"
                  "DELETE FROM event_batch;DELETE FROM event_sale;DELETE FROM webhook;"
                  "DELETE FROM webhook_undelivered;"
                  "UPDATE event_feed SET next=1,oldest=1,before_at=NULL");
}

/* Begins a group of tests with empty tables of the present version and an open ledger. */
static inline struct ledger *sql_server_ledger(void)
{
    char error[128];
    sql_server_clear();
    struct ledger *ledger = ledger_open(sql_server_url(), 5000, error, sizeof error);
    if (!ledger)
        fail_msg("%s", error);
    assert_int_equal(ledger_migrate(ledger, NULL, NULL), LEDGER_OK);
    return ledger;
}

/* A status variable of the server, which counts; fails the test when it has none of this name. */
static inline int64_t sql_server_status(const char *name)
{
    char text[128];
    snprintf(text, sizeof text, "SHOW GLOBAL STATUS LIKE '%s'", name);
    int64_t number = sql_server_number(text, 1);
    if (number < 0)
        fail_msg("%s: no number", text);
    return number;
}

/* Rows that the server has examined for this connection so far, and for this question. */
static inline int64_t sql_server_reads(struct db *db)
{
    static const char text[] = "SHOW SESSION STATUS LIKE 'Handler\\_read\\_%'";
    int64_t sum = 0;
    assert_int_equal(db_query(db, text, sizeof text - 1), DB_OK);
    for (char **row = db_row(db); row; row = db_row(db))
        sum += strtoll(row[1], NULL, 10);
    return sum;
}

/* Rows examined since `before`, which sql_server_reads gave; the question itself costs some. */
static inline int64_t sql_server_reads_since(struct db *db, int64_t before)
{
    int64_t now = sql_server_reads(db);
    return now - before - (sql_server_reads(db) - now);
}

/* The server is a MariaDB, or a MySQL, which has no bulk bindings: it gets a commit as text. */
static inline bool sql_server_is_mariadb(void)
{
    return sql_server_do("SELECT VERSION() LIKE '%%MariaDB%%'") == 1;
}

/* How far the server's log has come, once it rests: a commit without a write does not move it, and
 * flushes nothing. */
static inline int64_t sql_server_log(void)
{
    static const char written[] = "Innodb_os_log_written"; /* MariaDB and MySQL have this one */
    int64_t before = -1, now = sql_server_status(written);
    while (now != before) {
        nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
        before = now;
        now = sql_server_status(written);
    }
    return now;
}

/* Looks up one order. LEDGER_NO: no such order. LEDGER_DAMAGED: its row makes no sense. */
static inline enum ledger_result sql_order_find(struct ledger *ledger, uint64_t order_id,
                                                struct ledger_record *record_out)
{
    record_out->order_id = order_id;
    enum ledger_result result = ledger_orders_find(ledger, &record_out, 1);
    if (result != LEDGER_OK)
        return result;
    return record_out->damaged             ? LEDGER_DAMAGED
           : record_out->status[0] == '\0' ? LEDGER_NO
                                           : LEDGER_OK;
}

/* ---- another transaction ---- */

/* A transaction that has some rows and then wants more. */
struct sql_rival {
    struct db *db;
    pthread_t thread;
    const char *rest; /* of its statements */
    enum db_result result;
};

static inline enum db_result sql_rival_query(struct sql_rival *rival, const char *text)
{
    return db_query(rival->db, text, strlen(text));
}

static inline void sql_rival_begin(struct sql_rival *rival, const char *first, const char *rest,
                                   void *(*go_on)(void *))
{
    rival->db = sql_server_open(sql_server_url());
    rival->rest = rest;
    assert_int_equal(sql_rival_query(rival, "START TRANSACTION"), DB_OK);
    assert_int_equal(sql_rival_query(rival, first), DB_OK);
    assert_int_equal(pthread_create(&rival->thread, NULL, go_on, rival), 0);
}

static inline void *sql_rival_go_on(void *argument)
{
    struct sql_rival *rival = argument;
    nanosleep(&(struct timespec){.tv_nsec = 60000000}, NULL);
    rival->result = sql_rival_query(rival, rival->rest);
    return NULL;
}

/* Takes the rows of a sale's segments in their order, as a change of settings does: it has the
 * first, and a moment later it wants all. */
static inline void sql_rival_start(struct sql_rival *rival)
{
    sql_rival_begin(
        rival, "UPDATE stock_segment SET settings_version=settings_version WHERE segment=0",
        "UPDATE stock_segment SET settings_version=settings_version;COMMIT", sql_rival_go_on);
}

/* Goes on when another transaction waits for a row; after so long a time none will. */
static inline void *sql_rival_await(void *argument)
{
    enum { PAUSE_NS = 5000000, PAUSES_MAX = 2000 };
    struct sql_rival *rival = argument;
    int64_t waiting = 0;
    for (int i = 0; i < PAUSES_MAX && waiting == 0; i++) {
        nanosleep(&(struct timespec){.tv_nsec = PAUSE_NS}, NULL);
        waiting = sql_server_status("Innodb_row_lock_current_waits");
    }
    rival->result = sql_rival_query(rival, rival->rest);
    return NULL;
}

/* Has the first rows, and wants the rest as soon as another transaction waits for one of them. */
static inline void sql_rival_start_awaiting(struct sql_rival *rival, const char *first,
                                            const char *rest)
{
    sql_rival_begin(rival, first, rest, sql_rival_await);
}

/* DB_OK, or DB_SOFT when it was rolled back for a deadlock. */
static inline enum db_result sql_rival_join(struct sql_rival *rival)
{
    pthread_join(rival->thread, NULL);
    db_close(&rival->db);
    return rival->result;
}

/* ---- the wire ---- */

enum sql_wire_fault {
    WIRE_WHOLE,
    WIRE_LOSES_COMMIT, /* cut before the next COMMIT reaches the server */
    WIRE_LOSES_ANSWER, /* cut after the server has answered the next COMMIT */
    WIRE_SAYS_ERROR,   /* in place of the server's answer to the next COMMIT */
};

/* A loopback port that leads to the server, one connection at a time. With `server_port` 0 no more
 * connections are made. */
struct sql_wire {
    char url[512];
    char host[128];
    _Atomic int server_port;
    int listener;
    pthread_t thread;
    _Atomic int fault; /* enum sql_wire_fault; used up when it strikes */
    _Atomic int half;  /* its server says it is this half of a Galera cluster; 0: it is none */
    _Atomic int looks; /* how often it was asked that */
};

/* The line costs no time of its own. */
static inline int sql_wire_hurry(int end)
{
    if (end >= 0)
        setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &(int){1}, sizeof(int));
    return end;
}

static inline int sql_wire_dial(const struct sql_wire *wire)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)wire->server_port)};
    int server = socket(AF_INET, SOCK_STREAM, 0);
    inet_pton(AF_INET, wire->host, &address.sin_addr);
    if (connect(server, (struct sockaddr *)&address, sizeof address) != 0) {
        close(server);
        return -1;
    }
    return sql_wire_hurry(server);
}

/* Puts another question in place of the client's, when it asks what part the server has. Returns
 * the size of the packet. */
static inline ssize_t sql_wire_pose(struct sql_wire *wire, char *packet, ssize_t size, size_t room)
{
    enum { HEAD = 5 }; /* 3 bytes of length, a number, COM_QUERY */
    static const char variables[] = "SHOW GLOBAL VARIABLES", status[] = "SHOW GLOBAL STATUS";
    int length, half = atomic_load(&wire->half);
    if (half != 0 && strncmp(packet + HEAD, variables, sizeof variables - 1) == 0) {
        length = snprintf(packet + HEAD, room - HEAD,
                          "SELECT 'wsrep_on','ON' UNION SELECT 'server_id','%d'", half);
    } else if (half != 0 && strncmp(packet + HEAD, status, sizeof status - 1) == 0) {
        atomic_fetch_add(&wire->looks, 1);
        length = snprintf(packet + HEAD, room - HEAD,
                          "SELECT 'wsrep_ready','ON' UNION SELECT 'wsrep_cluster_status','Primary' "
                          "UNION SELECT 'wsrep_local_state','4' UNION "
                          "SELECT 'wsrep_cluster_state_uuid','one' UNION "
                          "SELECT 'wsrep_cluster_conf_id','%d'",
                          half);
    } else {
        return size;
    }
    packet[0] = (char)((length + 1) % 256);
    packet[1] = (char)((length + 1) / 256);
    return HEAD + length;
}

/* What a server says whose session was killed while its commit waited for a replica: the commit is
 * done. */
static inline bool sql_wire_say_error(int server, int client)
{
    static const char error[] = "\x28\0\0\1\xff\x25\x05#70100Query execution was interrupted";
    char answer[64];
    static_assert(sizeof error - 1 == 4 + 0x28, "the first byte is the length of what follows");
    return recv(server, answer, sizeof answer, 0) > 0 &&
           send(client, error, sizeof error - 1, MSG_NOSIGNAL) == sizeof error - 1;
}

/* Passes on what one side sends; false when the connection is over. */
static inline bool sql_wire_pass(struct sql_wire *wire, int from, int to, bool from_client)
{
    char bytes[65536];
    ssize_t size = recv(from, bytes, sizeof bytes, 0);
    if (size <= 0)
        return false;
    if (from_client && size > 5)
        size = sql_wire_pose(wire, bytes, size, sizeof bytes);
    bool commit =
        from_client && size == 4 + 1 + 6 && memcmp(bytes + 4, "\3COMMIT", 7) == 0; /* COM_QUERY */
    int fault = commit ? atomic_exchange(&wire->fault, WIRE_WHOLE) : WIRE_WHOLE;
    if (fault == WIRE_LOSES_COMMIT)
        return false;
    if (send(to, bytes, (size_t)size, MSG_NOSIGNAL) != size)
        return false;
    if (fault == WIRE_LOSES_ANSWER) {
        recv(to, bytes, sizeof bytes, 0);
        return false;
    }
    if (fault == WIRE_SAYS_ERROR)
        return sql_wire_say_error(to, from);
    return true;
}

static inline void *sql_wire_serve(void *argument)
{
    struct sql_wire *wire = argument;
    for (int client; (client = sql_wire_hurry(accept(wire->listener, NULL, NULL))) >= 0;
         close(client)) {
        int server = sql_wire_dial(wire);
        struct pollfd ends[] = {{.fd = client, .events = POLLIN}, {.fd = server, .events = POLLIN}};
        bool whole = server >= 0;
        while (whole && poll(ends, 2, -1) > 0) {
            if (ends[0].revents)
                whole = sql_wire_pass(wire, client, server, true);
            if (whole && ends[1].revents)
                whole = sql_wire_pass(wire, server, client, false);
        }
        close(server);
    }
    return NULL;
}

/* Lays the wire; `url` is then the way to the server over it. */
static inline void sql_wire_open(struct sql_wire *wire)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    char credentials[128], database[64];
    int port = 0;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fields = sscanf(sql_server_url(), "mysql://%127[^@]@%127[^:]:%d/%63[^?]", credentials,
                        wire->host, &port, database);
    assert_int_equal(fields, 4);
    wire->server_port = port;
    wire->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(wire->listener, (struct sockaddr *)&address, size), 0);
    assert_int_equal(listen(wire->listener, 8), 0);
    assert_int_equal(getsockname(wire->listener, (struct sockaddr *)&address, &size), 0);
    snprintf(wire->url, sizeof wire->url, "mysql://%s@127.0.0.1:%d/%s", credentials,
             ntohs(address.sin_port), database);
    atomic_store(&wire->fault, WIRE_WHOLE);
    atomic_store(&wire->half, 0);
    atomic_store(&wire->looks, 0);
    assert_int_equal(pthread_create(&wire->thread, NULL, sql_wire_serve, wire), 0);
}

/* Takes the wire up; its client must have been closed. */
static inline void sql_wire_close(struct sql_wire *wire)
{
    shutdown(wire->listener, SHUT_RDWR);
    pthread_join(wire->thread, NULL);
    close(wire->listener);
}

#endif

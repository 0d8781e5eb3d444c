/* What the connection sends, as a server reads it that says it is MySQL 8: no statement is empty,
 * rows are texts, and errors of a demoted server end the connection. */
#include "sql/orders/orders.h"
#include "sql/test_server.h"

#include <signal.h>

enum { PACKET_MAX = 65536, LOG_MAX = 65536, OK_MORE = 0x0008, OK_AUTOCOMMIT = 0x0002 };

/* A server on a loopback port, one connection at a time, that answers OK to everything. */
struct fake {
    int listener;
    pthread_t thread;
    char url[64];
    char log[LOG_MAX];       /* each statement on a line of its own, without what it ignores */
    _Atomic int empty;       /* statements of which nothing is left */
    _Atomic int connections; /* made so far */
    _Atomic int prepared;    /* statements that were to be prepared */
    _Atomic unsigned refuse; /* answers statements that begin with refuse_word by this error */
    const char *refuse_word;
};

/* ---- packets ---- */

static bool read_all(int fd, unsigned char *out, size_t size)
{
    size_t got = 0;
    while (got < size) {
        ssize_t n = read(fd, out + got, size - got);
        if (n <= 0)
            return false;
        got += (size_t)n;
    }
    return true;
}

/* The length of the next packet's body; -1 at the end of the connection. */
static int read_packet(int fd, unsigned char *out, unsigned char *number_out)
{
    unsigned char head[4];
    if (!read_all(fd, head, sizeof head))
        return -1;
    int length = head[0] | head[1] << 8 | head[2] << 16;
    *number_out = head[3];
    assert_true(length < PACKET_MAX);
    return read_all(fd, out, (size_t)length) ? length : -1;
}

static void send_packet(int fd, const void *body, size_t length, unsigned char number)
{
    unsigned char packet[512];
    assert_true(length + 4 <= sizeof packet);
    packet[0] = (unsigned char)length;
    packet[1] = (unsigned char)(length >> 8);
    packet[2] = 0;
    packet[3] = number;
    memcpy(packet + 4, body, length);
    ssize_t sent = send(fd, packet, length + 4, MSG_NOSIGNAL);
    (void)sent; /* a client that has gone is found out by the next read */
}

static void send_greeting(int fd)
{
    /* protocol 10, version, thread id, salt, capabilities: 4.1, secure, plugin, multi results … */
    static const char greeting[] = "\x0a"
                                   "8.0.36\0"
                                   "\x01\0\0\0"
                                   "12345678\0"
                                   "\xff\xf7"
                                   "\x2d"
                                   "\x02\0"
                                   "\xff\x81"
                                   "\x15"
                                   "\0\0\0\0\0\0\0\0\0\0"
                                   "123456789012\0"
                                   "mysql_native_password";
    send_packet(fd, greeting, sizeof greeting, 0);
}

static void send_ok(int fd, bool more, unsigned char number)
{
    unsigned status = OK_AUTOCOMMIT | (more ? OK_MORE : 0);
    /* Each statement has changed one row. */
    const unsigned char ok[] = {0, 1, 0, (unsigned char)status, (unsigned char)(status >> 8), 0, 0};
    send_packet(fd, ok, sizeof ok, number);
}

static void send_error(int fd, unsigned code, unsigned char number)
{
    char body[64] = {(char)0xff, (char)code, (char)(code >> 8), '#', 'H', 'Y', '0', '0', '0'};
    int length = snprintf(body + 9, sizeof body - 9, "refused by %u", code);
    send_packet(fd, body, 9 + (size_t)length, number);
}

/* ---- statements ---- */

/* Copies a statement as MySQL 8 takes it: comments go, and what stands in its own comments stays.
 */
/* NOLINTNEXTLINE(misc-no-recursion): to the depth of comments */
static void strip(const char *from, const char *to, char *out)
{
    for (char quote = '\0'; from < to; from++) {
        if (quote == '\0' && strncmp(from, "/*", 2) == 0) {
            const char *end = strstr(from, "*/");
            if (from[2] == '!') { /* runs from a version on: 5 digits */
                strip(from + 3 + strspn(from + 3, "0123456789"), end, out + strlen(out));
                out += strlen(out);
            }
            from = end + 1;
        } else if (quote == '\0' && (*from == ' ' || *from == '\n')) {
            if (out[0] == ' ')
                continue;
            *out++ = ' ';
        } else {
            if (*from == '\'')
                quote = quote ? '\0' : '\'';
            *out++ = *from;
        }
        *out = '\0';
    }
    *out = '\0';
}

/* The end of the statement: its semicolon, or the end of the text. */
static const char *statement_end(const char *at)
{
    bool quoted = false;
    for (; *at && (quoted || *at != ';'); at++)
        if (*at == '\'')
            quoted = !quoted;
    return at;
}

/* Answers each statement in turn, up to the first that is refused. */
static void answer(struct fake *fake, int fd, const char *text)
{
    unsigned char number = 1;
    for (const char *at = text, *end = text; *at; at = *end ? end + 1 : end) {
        char statement[PACKET_MAX] = "";
        end = statement_end(at);
        strip(at, end, statement);
        const char *word = statement + strspn(statement, " ");
        if (*word == '\0') {
            atomic_fetch_add(&fake->empty, 1);
            send_error(fd, 1065, number); /* "Query was empty" */
            return;
        }
        strncat(fake->log, word, sizeof fake->log - strlen(fake->log) - 2);
        strcat(fake->log, "\n");
        unsigned refuse = atomic_load(&fake->refuse);
        if (refuse != 0 && strncmp(word, fake->refuse_word, strlen(fake->refuse_word)) == 0) {
            send_error(fd, refuse, number);
            return;
        }
        /* MySQL reads a semicolon at the very end as the end of the statement before. */
        send_ok(fd, *end && end[1] != '\0', number++);
    }
}

static void serve(struct fake *fake, int fd)
{
    static unsigned char packet[PACKET_MAX];
    unsigned char number = 0;
    send_greeting(fd);
    if (read_packet(fd, packet, &number) < 0)
        return;
    send_ok(fd, false, (unsigned char)(number + 1));
    atomic_fetch_add(&fake->connections, 1);
    for (int length; (length = read_packet(fd, packet, &number)) > 0;) {
        packet[length] = '\0';
        if (packet[0] == 3) /* COM_QUERY */
            answer(fake, fd, (const char *)packet + 1);
        else if (packet[0] == 1) /* COM_QUIT */
            return;
        else {
            atomic_fetch_add(&fake->prepared, packet[0] == 22); /* COM_STMT_PREPARE */
            send_ok(fd, false, 1);
        }
    }
}

static void *run(void *context)
{
    struct fake *fake = context;
    for (int fd; (fd = accept(fake->listener, NULL, NULL)) >= 0; close(fd))
        serve(fake, fd);
    return NULL;
}

static int start_at_ipv6(void **state)
{
    struct fake *fake = calloc(1, sizeof *fake);
    struct sockaddr_in6 address = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    socklen_t length = sizeof address;
    fake->listener = socket(AF_INET6, SOCK_STREAM, 0);
    *state = fake;
    if (fake->listener < 0 ||
        bind(fake->listener, (struct sockaddr *)&address, sizeof address) != 0)
        return 0; /* a machine without IPv6: the test is skipped */
    assert_int_equal(listen(fake->listener, 4), 0);
    assert_int_equal(getsockname(fake->listener, (struct sockaddr *)&address, &length), 0);
    snprintf(fake->url, sizeof fake->url, "mysql://u:p@[::1]:%d/db", ntohs(address.sin6_port));
    assert_int_equal(pthread_create(&fake->thread, NULL, run, fake), 0);
    return 0;
}

static int start(void **state)
{
    struct fake *fake = calloc(1, sizeof *fake);
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t length = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    fake->listener = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(fake->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(fake->listener, 4), 0);
    assert_int_equal(getsockname(fake->listener, (struct sockaddr *)&address, &length), 0);
    snprintf(fake->url, sizeof fake->url, "mysql://u:p@127.0.0.1:%d/db", ntohs(address.sin_port));
    assert_int_equal(pthread_create(&fake->thread, NULL, run, fake), 0);
    *state = fake;
    return 0;
}

static int finish(void **state)
{
    struct fake *fake = *state;
    shutdown(fake->listener, SHUT_RDWR);
    if (fake->url[0] != '\0')
        pthread_join(fake->thread, NULL);
    close(fake->listener);
    free(fake);
    return 0;
}

/* ---- the tests ---- */

static void test_connect_sends_no_empty_statement(void **state)
{
    struct fake *fake = *state;
    struct db *db = sql_server_open(fake->url);
    if (db_connect(db) != DB_OK)
        fail_msg("%s after\n%s", db_error(db), fake->log);
    assert_int_equal(atomic_load(&fake->empty), 0);
    db_close(&db);
}

/* MariaDB ends idle transactions by a variable that MySQL does not have; there the idle
 * connection ends. */
static void test_connect_bounds_idle_transactions(void **state)
{
    struct fake *fake = *state;
    struct db *db = sql_server_open(fake->url);
    assert_int_equal(db_connect(db), DB_OK);
    assert_non_null(strstr(fake->log, "wait_timeout=10"));
    assert_null(strstr(fake->log, "idle_transaction_timeout"));
    db_close(&db);
    if (sql_server_is_mariadb()) {
        assert_int_equal(sql_server_do("SELECT @@session.idle_transaction_timeout"), 3);
        assert_true(sql_server_do("SELECT @@session.wait_timeout") > 10);
    } else {
        assert_int_equal(sql_server_do("SELECT @@session.wait_timeout"), 10);
    }
}

static enum db_result refused_update(struct fake *fake, struct db *db, unsigned code)
{
    assert_int_equal(db_connect(db), DB_OK);
    fake->refuse_word = "UPDATE";
    atomic_store(&fake->refuse, code);
    return db_query(db, "UPDATE t SET n=1", 16);
}

/* A primary that became a replica refuses every write: its name may lead to another server by now,
 * so the connection is not kept. */
static void refuse_and_come_back(struct fake *fake, unsigned code)
{
    struct db *db = sql_server_open(fake->url);
    int before = atomic_load(&fake->connections);
    assert_int_equal(refused_update(fake, db, code), DB_FAILED);
    assert_false(db_in_doubt(db)); /* a refusal is certainly not done */
    assert_false(db_connected(db));
    assert_int_equal(strtol(db_error(db), NULL, 10), code);
    atomic_store(&fake->refuse, 0);
    nanosleep(&(struct timespec){.tv_nsec = 25000000}, NULL); /* the first delay */
    assert_int_equal(db_query(db, "UPDATE t SET n=1", 16), DB_OK);
    assert_int_equal(atomic_load(&fake->connections), before + 2);
    db_close(&db);
}

static void test_server_that_takes_no_writes_is_left(void **state)
{
    static const unsigned codes[] = {1290, 1836, 1792, 1047};
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
        refuse_and_come_back(*state, codes[i]);
}

static void test_other_refusals_keep_the_connection(void **state)
{
    struct fake *fake = *state;
    struct db *db = sql_server_open(fake->url);
    assert_int_equal(refused_update(fake, db, 1064), DB_FAILED);
    assert_true(db_connected(db));
    assert_int_equal(refused_update(fake, db, 1020), DB_SOFT);
    assert_true(db_connected(db));
    db_close(&db);
}

/* It has been idle for too long: MySQL says so in place of an answer, and ends it. */
static void test_connection_that_the_server_ends_is_in_doubt(void **state)
{
    struct fake *fake = *state;
    struct db *db = sql_server_open(fake->url);
    assert_int_equal(refused_update(fake, db, 4031), DB_FAILED);
    assert_true(db_in_doubt(db)); /* so that a transaction is tried again */
    assert_false(db_connected(db));
    db_close(&db);
}

/* MySQL has no bulk bindings: all rows of a kind are one text, and nothing is prepared. */
static void test_commit_is_sent_as_text(void **state)
{
    struct fake *fake = *state;
    char error[128];
    struct ledger *ledger = ledger_open(fake->url, 5000, error, sizeof error);
    struct ledger_stock_update steps[5];
    for (uint32_t i = 0; i < 5; i++)
        steps[i] = (struct ledger_stock_update){
            .sku = "s", .segment = i, .round = 1, .units = 1, .fence = 8, .settled = 7};
    struct ledger_order orders[] = {
        {.order_id = 2, .sku = "s", .user_id = "o'b", .key = "k", .round = 1, .qty = 2, .limit = 4},
        {.order_id = 1, .sku = "s", .user_id = "a", .round = 1, .qty = 3, .expires_ms = 1000},
    };
    assert_non_null(ledger);
    enum ledger_result result = ledger_commit(ledger, steps, 5, orders, 2);
    if (result != LEDGER_OK)
        fail_msg("%s after\n%s", ledger_error(ledger), fake->log);
    assert_non_null(strstr(fake->log, "SET sold=sold+1,fence=8 WHERE sku='s' AND segment=4 "));
    assert_non_null(strstr(fake->log, "INSERT INTO order_key(user_id,idempotency_key,order_id)"
                                      "VALUES('a','#1',1),('o''b','k',2)\n"));
    assert_non_null(strstr(fake->log, ",expires_at)VALUES(2,'s',1,'o''b',2,0,'k',NULL,NULL),"
                                      "(1,'s',1,'a',3,0,NULL,NULL,'1970-01-01T00:00:01.000')\n"));
    assert_non_null(strstr(fake->log, "VALUES('s',1,'o''b',2,4,2)ON DUPLICATE KEY UPDATE units="));
    assert_non_null(strstr(fake->log, "\nCOMMIT\n"));
    assert_int_equal(atomic_load(&fake->empty), 0);
    assert_int_equal(atomic_load(&fake->prepared), 0);
    ledger_close(&ledger);
}

static void test_ipv6_address_is_connected_to(void **state)
{
    struct fake *fake = *state;
    if (fake->url[0] == '\0')
        skip();
    struct db *db = sql_server_open(fake->url);
    if (db_connect(db) != DB_OK)
        fail_msg("%s: %s", fake->url, db_error(db));
    assert_int_equal(strncmp(db_place(db), "[::1]:", 6), 0);
    db_close(&db);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_connect_sends_no_empty_statement, start, finish),
        cmocka_unit_test_setup_teardown(test_connect_bounds_idle_transactions, start, finish),
        cmocka_unit_test_setup_teardown(test_server_that_takes_no_writes_is_left, start, finish),
        cmocka_unit_test_setup_teardown(test_connection_that_the_server_ends_is_in_doubt, start,
                                        finish),
        cmocka_unit_test_setup_teardown(test_commit_is_sent_as_text, start, finish),
        cmocka_unit_test_setup_teardown(test_ipv6_address_is_connected_to, start_at_ipv6, finish),
        cmocka_unit_test_setup_teardown(test_other_refusals_keep_the_connection, start, finish),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

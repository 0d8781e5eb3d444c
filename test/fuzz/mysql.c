/* Fuzzes what a MySQL or MariaDB server answers. First the calls on the ledger, a byte each up to a
 * '.'; the rest says, packet for packet, what the server sends to each command: see answer.
 *
 * The packets are framed as the protocol wants it and rows have as many columns as any query of
 * ours; what is in them is hostile, NULLs where none can be included. A transaction is done exactly
 * when its COMMIT was answered with yes, and failed only when that was refused or never sent: all
 * else is unknown. Texts fit their buffers, and pages their size. */
#define _GNU_SOURCE
#include <assert.h>
#include <mysqld_error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "sql/db/db.h"
#include "sql/orders/orders.h"
#include "sql/sales/sales.h"
#include "sql/server/server.h"
#include "test/fuzz/fuzz.h"

enum {
    COLUMNS = 16,
    KEY_COLUMNS = 3,
    PACKET_MAX = 1 << 16,
    MORE_RESULTS = 8, /* of the status flags */
    OPERATIONS_MAX = 6,
};

/* ---- the server ---- */

enum commit_state { COMMIT_NONE, COMMIT_DONE, COMMIT_REFUSED, COMMIT_UNKNOWN };

static struct {
    struct fuzz_input input; /* the answers that are left */
    int fd;                  /* the server's end of the present connection, or -1 */
    int client_fd;
    uint8_t got[PACKET_MAX]; /* of the command that is being received */
    size_t length;
    bool logged_in;
    uint8_t sequence;
    enum commit_state commit; /* of the last COMMIT */
    const char *first;        /* NULL, or the first column of each row: what was asked for */
} server = {.fd = -1, .client_fd = -1};

static void hang_up(void)
{
    if (server.fd >= 0)
        close(server.fd);
    server.fd = -1;
}

static void put_packet(const void *bytes, size_t length)
{
    uint8_t packet[PACKET_MAX + 4] = {(uint8_t)length, (uint8_t)(length >> 8),
                                      (uint8_t)(length >> 16), server.sequence++};
    assert(length < PACKET_MAX);
    memcpy(packet + 4, bytes, length);
    if (server.fd >= 0 && write(server.fd, packet, length + 4) != (ssize_t)length + 4)
        hang_up();
}

static void put_ok(unsigned affected, unsigned id, bool more)
{
    const uint8_t packet[] = {0,
                              (uint8_t)(affected % 251),
                              (uint8_t)(id % 251),
                              (uint8_t)(2 | (more ? MORE_RESULTS : 0)),
                              0,
                              0,
                              0};
    put_packet(packet, sizeof packet);
}

static void put_end(bool more)
{
    const uint8_t packet[] = {0xfe, 0, 0, (uint8_t)(2 | (more ? MORE_RESULTS : 0)), 0};
    put_packet(packet, sizeof packet);
}

static void put_error(unsigned code)
{
    char packet[64] = {(char)0xff, (char)code, (char)(code >> 8)};
    int length = snprintf(packet + 3, sizeof packet - 3, "#HY000error %u", code);
    put_packet(packet, (size_t)length + 3);
}

static void put_column(void)
{
    static const char column[] = "\3def\0\0\0\1c\1c\x0c\x2d\0\0\1\0\0\xfd\0\0\0\0\0";
    put_packet(column, sizeof column - 1);
}

/* A value begins with its length; from 251 on it is NULL, but where keys stand: in front. */
static void put_row(void)
{
    uint8_t row[COLUMNS * 256];
    size_t length = 0;
    if (server.first) {
        row[length++] = (uint8_t)strlen(server.first);
        length = (size_t)(stpcpy((char *)row + length, server.first) - (char *)row);
    }
    for (int i = server.first != NULL; i < COLUMNS; i++) {
        unsigned size = fuzz_byte(&server.input);
        size = i < KEY_COLUMNS && size > 250 ? 0 : size;
        row[length++] = (uint8_t)(size < 251 ? size % 100 : 251);
        for (unsigned j = 0; size < 251 && j < size % 100; j++)
            row[length++] = (uint8_t)fuzz_byte(&server.input);
    }
    put_packet(row, length);
}

static void put_rows(unsigned count, bool more)
{
    const uint8_t columns = COLUMNS;
    put_packet(&columns, 1);
    for (int i = 0; i < COLUMNS; i++)
        put_column();
    put_end(false);
    while (count-- > 0)
        put_row();
    put_end(more);
}

/* The errors that mean something to us come often; others too. */
static unsigned error_code(unsigned which)
{
    static const unsigned codes[] = {
        ER_LOCK_DEADLOCK,
        ER_LOCK_WAIT_TIMEOUT,
        ER_DUP_ENTRY,
        4025,
        ER_SERVER_SHUTDOWN,
        ER_QUERY_INTERRUPTED,
        1927,
        ER_OPTION_PREVENTS_STATEMENT,
        ER_CHECKREAD,
        ER_UNKNOWN_COM_ERROR,
        ER_NO_SUCH_TABLE,
        2013,
    };
    enum { KNOWN = sizeof codes / sizeof *codes };
    return which % (2 * KNOWN) < KNOWN ? codes[which % KNOWN] : which * 257;
}

/* One result of a command, as a byte of the input says: rows, an error, no answer, a piece of one,
 * or OK. False when no further result follows. */
static bool answer_once(unsigned code, bool more)
{
    switch (code % 8) {
    case 0:
    case 1:
        put_rows(code / 8 % 4, more);
        return true;
    case 2:
        put_error(error_code(fuzz_byte(&server.input)));
        return false;
    case 3:
        hang_up();
        return false;
    case 4: { /* breaks off in the middle of a packet */
        const uint8_t piece[] = {7, 0, 0, server.sequence, 0};
        if (server.fd >= 0 && write(server.fd, piece, code / 8 % (sizeof piece + 1)) >= 0)
            hang_up();
        return false;
    }
    default:
        put_ok(code / 8, code / 16, more);
        return true;
    }
}

/* As many results as the text has statements, or as many as the input wants. */
static void answer_query(const char *text, size_t length)
{
    size_t statements = 1;
    for (size_t i = 0; i + 1 < length; i++)
        statements += text[i] == ';';
    bool going = true;
    for (size_t i = 0; going && i < statements && i < 64; i++)
        going =
            answer_once(server.input.left > 0 ? fuzz_byte(&server.input) : 7, i + 1 < statements);
}

static void answer_commit(void)
{
    unsigned code = server.input.left > 0 ? fuzz_byte(&server.input) : 7;
    unsigned error = 0;
    server.commit = COMMIT_UNKNOWN;
    if (code % 8 == 2) {
        error = error_code(fuzz_byte(&server.input));
        put_error(error);
        if (error == ER_LOCK_DEADLOCK || error == ER_LOCK_WAIT_TIMEOUT)
            server.commit = COMMIT_REFUSED;
    } else if (code % 8 == 3 || code % 8 == 4) {
        answer_once(code, false);
    } else {
        put_ok(0, 0, false);
        server.commit = COMMIT_DONE;
    }
}

static void answer_prepare(const uint8_t *text, size_t length)
{
    unsigned parameters = 0, code = server.input.left > 0 ? fuzz_byte(&server.input) : 7;
    for (size_t i = 0; i < length; i++)
        parameters += text[i] == '?';
    if (code % 8 < 5) {
        answer_once(code % 8 < 2 ? 3 : code, false);
        return;
    }
    const uint8_t packet[] = {0, 1, 0, 0, 0, 0, 0, (uint8_t)parameters, (uint8_t)(parameters >> 8),
                              0, 0, 0};
    put_packet(packet, sizeof packet);
    for (unsigned i = 0; i < parameters; i++)
        put_column();
    if (parameters > 0)
        put_end(false);
}

/* A whole command has arrived. */
static void answer(const uint8_t *packet, size_t length)
{
    enum { QUIT = 1, QUERY = 3, PREPARE = 0x16, CLOSE = 0x19 };
    static const char role[] = "\3SHOW GLOBAL VARIABLES";
    server.sequence = (uint8_t)(packet[3] + 1);
    const uint8_t *body = packet + 4;
    length -= 4;
    if (!server.logged_in) {
        server.logged_in = true;
        unsigned code = fuzz_byte(&server.input);
        if (code % 8 == 1)
            put_error(error_code(code));
        else
            put_ok(0, 0, false);
        return;
    }
    if (length == 7 && memcmp(body, "\3COMMIT", 7) == 0)
        answer_commit();
    else if (length > strlen(role) && memcmp(body, role, strlen(role)) == 0)
        put_ok(0, 0, false); /* each connect asks it: a server that knows none of the names */
    else if (length > 0 && body[0] == QUERY)
        answer_query((const char *)body + 1, length - 1);
    else if (length > 0 && body[0] == PREPARE)
        answer_prepare(body + 1, length - 1);
    else if (length > 0 && body[0] == QUIT)
        hang_up();
    else if (length > 0 && body[0] != CLOSE)
        answer_query("", 0);
}

static void receive(const uint8_t *bytes, size_t length)
{
    size_t used = 0;
    assert(server.length + length <= sizeof server.got);
    memcpy(server.got + server.length, bytes, length);
    server.length += length;
    while (server.length - used >= 4) {
        const uint8_t *packet = server.got + used;
        size_t size = packet[0] + packet[1] * 256U + packet[2] * 65536U + 4;
        if (server.length - used < size)
            break;
        answer(packet, size);
        used += size;
    }
    server.length -= used;
    memmove(server.got, server.got + used, server.length);
}

static void greet(void)
{
    static const char greeting[] = "\x0a"
                                   "5.5.5-10.11.6-MariaDB\0"
                                   "\1\0\0\0"
                                   "12345678\0"
                                   "\xff\xf7\x2d\2\0\xff\x81\x15"
                                   "\0\0\0\0\0\0\x1d\0\0\0"
                                   "123456789012\0"
                                   "mysql_native_password";
    server.sequence = 0;
    server.length = 0;
    server.logged_in = false;
    unsigned code = fuzz_byte(&server.input);
    if (code % 8 == 1)
        put_error(error_code(code)); /* as of a server with too many connections */
    else if (code % 8 == 2)
        hang_up();
    else
        put_packet(greeting, sizeof greeting);
}

/* The client library's calls of the kernel: the linker leads them here. The server answers while a
 * command is being sent, so this thread never waits for it. */
int connect(int fd, const struct sockaddr *to, socklen_t length)
{
    int fds[2];
    (void)to;
    (void)length;
    hang_up();
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds) != 0 || dup2(fds[0], fd) < 0)
        abort();
    close(fds[0]);
    server.fd = fds[1];
    server.client_fd = fd;
    greet();
    return 0;
}

ssize_t send(int fd, const void *bytes, size_t length, int flags)
{
    (void)flags;
    static const char commit[] = "COMMIT";
    if (fd == server.client_fd && server.fd >= 0)
        receive(bytes, length);
    else if (memmem(bytes, length, commit, sizeof commit - 1))
        server.commit = COMMIT_UNKNOWN; /* sent into the void: the answer never comes */
    return (ssize_t)length;
}

/* Pauses between the tries of a transaction: the answers are the same without. */
int nanosleep(const struct timespec *pause, struct timespec *left)
{
    (void)pause;
    (void)left;
    return 0;
}

/* ---- transactions ---- */

static void check_commit(enum ledger_result result)
{
    switch (server.commit) {
    case COMMIT_DONE:
        assert(result == LEDGER_OK);
        break;
    case COMMIT_UNKNOWN:
        assert(result == LEDGER_UNKNOWN);
        break;
    default: /* unknown where the client library itself did not send the COMMIT */
        assert(result != LEDGER_OK);
        break;
    }
}

static void run_commit(struct ledger *ledger, unsigned what)
{
    struct ledger_stock_update updates[] = {
        {.sku = "a", .segment = 0, .round = 1, .units = 1, .fence = 9, .settled = 8},
        {.sku = "a", .segment = 1, .round = 1, .units = 1, .fence = 9, .settled = 8},
    };
    const struct ledger_order orders[] = {
        {.order_id = 1, .sku = "a", .user_id = "u", .key = "k", .round = 1, .qty = 1},
        {.order_id = 2, .sku = "a", .user_id = "v", .round = 1, .qty = 2, .limit = what % 3},
    };
    server.commit = COMMIT_NONE;
    enum ledger_result result =
        ledger_commit(ledger, updates, what % 2 + 1, orders, what / 2 % 2 + 1);
    assert(result != LEDGER_OK || server.commit == COMMIT_DONE);
    check_commit(result);
}

static void run_node(struct ledger *ledger, unsigned what)
{
    char other[IDENTIFIER_SIZE] = "", until[LEDGER_TIME_SIZE] = "";
    struct ledger_node node = {
        .number = what % 2 ? -1 : 7, .holder = "me", .lease_ms = 1000, .next_ms = what};
    server.commit = COMMIT_NONE;
    enum ledger_result result = ledger_node_take(ledger, &node, other, until);
    assert(memchr(other, '\0', sizeof other) && memchr(until, '\0', sizeof until));
    assert(result != LEDGER_OK || (node.number >= 0 && node.number < LEDGER_NODES));
    assert(server.commit != COMMIT_UNKNOWN || result == LEDGER_UNKNOWN);
    if (result == LEDGER_OK)
        ledger_node_release(ledger, &node);
}

/* ---- reading ---- */

static bool fits(const char *text, size_t size)
{
    return memchr(text, '\0', size) != NULL;
}

static void check_sale(const struct ledger_sale *sale)
{
    assert(fits(sale->sku, sizeof sale->sku));
}

static void visit_sale(const struct ledger_sale *sale, void *context)
{
    (void)context;
    check_sale(sale);
}

static void run_sales(struct ledger *ledger, unsigned what)
{
    enum { MAX = 4 };
    const char *const skus[] = {"a", "b"};
    struct ledger_sale sales[MAX];
    size_t count = 0;
    if (ledger_sale_find(ledger, "a", &sales[0]) == LEDGER_OK)
        check_sale(&sales[0]);
    if (ledger_sale_list(ledger, "a", what % MAX + 1, sales, &count) == LEDGER_OK)
        for (size_t i = 0; i < count; i++)
            check_sale(&sales[i]);
    assert(count <= what % MAX + 1);
    ledger_sales_find(ledger, skus, 2, visit_sale, NULL);
}

static void run_list(struct ledger *ledger, unsigned what)
{
    enum { MAX = 3 };
    struct ledger_record orders[MAX];
    struct ledger_filter filter = {.sku = "a"};
    size_t count = 0;
    uint64_t next = 0;
    if (what % 2)
        strcpy(filter.user_id, "u");
    enum ledger_result result =
        ledger_orders_list(ledger, &filter, what, MAX, orders, &count, &next);
    assert(result == LEDGER_OK || result == LEDGER_FAILED);
    assert(count <= MAX);
    for (size_t i = 0; result == LEDGER_OK && i < count; i++)
        assert(fits(orders[i].sku, IDENTIFIER_SIZE) &&
               fits(orders[i].user_id, sizeof orders[i].user_id) &&
               fits(orders[i].status, sizeof orders[i].status) &&
               fits(orders[i].created_at, LEDGER_TIME_SIZE) &&
               fits(orders[i].expires_at, LEDGER_TIME_SIZE));
}

static void run_lookup(struct ledger *ledger, unsigned what)
{
    struct ledger_record record;
    struct ledger_key keys[] = {{.user_id = "u", .key = "k"}, {.user_id = "v", .key = "l"}};
    server.first = what % 4 ? "17" : NULL; /* else a row may come that was not asked for */
    record.order_id = 17;
    if (ledger_orders_find(ledger, (struct ledger_record *[]){&record}, 1) == LEDGER_OK)
        assert(fits(record.status, sizeof record.status) && fits(record.sku, IDENTIFIER_SIZE));
    server.first = NULL;
    ledger_keys_find(ledger, keys, 2);
    char sku[IDENTIFIER_SIZE];
    if (ledger_count_find(ledger, sku) == LEDGER_OK)
        assert(fits(sku, sizeof sku));
}

static void run_ping(struct ledger *ledger, unsigned what)
{
    (void)what;
    ledger_ping(ledger);
    ledger_confirm(ledger, ledger_connection(ledger));
}

static void (*const operations[])(struct ledger *ledger, unsigned what) = {
    run_commit, run_sales, run_list, run_lookup, run_ping, run_node,
};

enum { OPERATIONS = sizeof operations / sizeof *operations };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[256];
    struct fuzz_input input = {data, size};
    size_t count;
    char *codes = fuzz_text(&input, '.', &count);
    struct ledger *ledger =
        ledger_open("mysql://u:p@localhost/d?socket=/server", 1000, error, sizeof error);
    assert(ledger);
    server.input = input;
    for (size_t i = 0; i < count && i < OPERATIONS_MAX; i++) {
        unsigned code = (uint8_t)codes[i];
        operations[code % OPERATIONS](ledger, code / OPERATIONS);
        assert(strlen(ledger_error(ledger)) < 256);
    }
    ledger_close(&ledger);
    hang_up();
    server.client_fd = -1;
    free(codes);
    return 0;
}

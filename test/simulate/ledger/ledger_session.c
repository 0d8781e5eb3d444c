/* A connection to the simulated ledger: statements that travel, transactions, and all that may go
 * wrong with them. */
#include "test/simulate/ledger/ledger_session.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "sql/ledger/ledger.h"
#include "test/simulate/machine/chance.h"
#include "test/simulate/machine/loop.h"
#include "test/simulate/story.h"
#include "test/simulate/tally.h"

enum {
    TRIP_US_MAX = 300,
    SYNC_US_MAX = 600,
    SYNC_SLOW_US_MAX = 20000,
    SYNC_SLOW_PART = 6, /* one in so many is slow */
    CONNECT_NS = 400000,
    LOCK_WAIT_MS = 300, /* shorter than LEDGER_ROW_WAIT_S, as leases are, too */
    HELD_MS_MAX = 3000,
    HELD_TRIES_MAX = 8,
    RUN_TRIES_MAX = 5,
    WAITERS_MAX = 64,
    SESSIONS_MAX = 4096,
    BACKOFF_MS_MIN = 20,
    BACKOFF_MS_MAX = 1000,
    LATE_MS_MAX = 1500,
    STEP_MS_MAX = 4000,
};

static struct {
    uint32_t epoch;
    int64_t down_until_ns, read_only_until_ns;
    int64_t clock_step_ms;
    struct ledger *sessions[SESSIONS_MAX];
    size_t session_count;
    struct {
        struct task *task;
        uint32_t tag;
    } waiters[WAITERS_MAX];
    size_t waiter_count;
} server;

static int64_t trip_ns(void)
{
    return (int64_t)(20 + chance_delay(TRIP_US_MAX)) * 1000;
}

int64_t ledger_server_ms(void)
{
    return (LOOP_WALL_NS + loop_now_ns() - LOOP_START_NS) / LOOP_MS + server.clock_step_ms;
}

void ledger_server_set(int64_t now_ms)
{
    server.clock_step_ms += now_ms - ledger_server_ms();
}

/* ---- transactions whose client is gone ---- */

static void end_by_rollback(void *argument, uint32_t tag)
{
    (void)tag;
    txn_rollback(argument);
}

static void end_by_commit(void *argument, uint32_t epoch)
{
    struct txn *txn = argument;
    if (txn->ended || epoch != server.epoch)
        return;
    story("    ledger: a commit whose client has given up ends now");
    txn_commit(txn);
    tables_sync();
}

/* The server notices some time later that a client is gone. */
static void leave_txn(struct ledger *ledger, void (*how)(void *argument, uint32_t tag), int ms_max)
{
    struct txn *txn = ledger->txn;
    ledger->txn = NULL;
    if (txn)
        txn->waits_for = NULL;
    if (txn && !txn->ended)
        loop_at(loop_now_ns() + (int64_t)chance_effect((uint32_t)ms_max * 1000) * 1000, how, txn,
                server.epoch);
}

static enum db_result lose(struct ledger *ledger)
{
    ledger->connected = false;
    ledger->in_doubt = true;
    ledger->fault.count++;
    leave_txn(ledger, end_by_rollback, chance_effect(4) == 0 ? LATE_MS_MAX : 2);
    return DB_FAILED;
}

static void on_death(struct task *task)
{
    for (size_t i = 0; i < server.session_count; i++)
        if (server.sessions[i]->task == task)
            leave_txn(server.sessions[i], end_by_rollback, 20);
}

/* ---- waiting for rows ---- */

static void wake_waiters(void)
{
    size_t count = server.waiter_count;
    server.waiter_count = 0;
    for (size_t i = 0; i < count; i++)
        task_wake(server.waiters[i].task, server.waiters[i].tag);
}

static bool is_deadlock(const struct txn *txn, const struct row *row)
{
    for (const struct txn *other = row->owner; other; other = other->waits_for)
        if (other == txn)
            return true;
    return false;
}

/* The statement fails; its client must not wait for the row again. */
static enum db_result give_up_row(struct ledger *ledger)
{
    ledger->held = true;
    tally("waited too long for a row");
    return DB_SOFT;
}

enum db_result session_lock(struct ledger *ledger, struct row *row)
{
    struct txn *txn = ledger->txn;
    int64_t start_ns = loop_now_ns();
    int64_t leaves_ns = start_ns + ledger->timeout_ms * LOOP_MS;
    int64_t until_ns = start_ns + LOCK_WAIT_MS * LOOP_MS;
    until_ns = leaves_ns < until_ns ? leaves_ns : until_ns;
    while (!txn_take(txn, row)) {
        if (is_deadlock(txn, row)) {
            tally("deadlock");
            story("    ledger: a deadlock, rolled back");
            return DB_SOFT;
        }
        if (ledger->hurried)
            return give_up_row(ledger);
        assert(task_current() && server.waiter_count < WAITERS_MAX);
        txn->waits_for = row->owner;
        server.waiters[server.waiter_count].task = task_current();
        server.waiters[server.waiter_count++].tag = task_waits();
        tally("wait for a row");
        task_await_at_server(until_ns);
        txn->waits_for = NULL;
        if (ledger->epoch != server.epoch || txn->ended)
            return lose(ledger);
        if (loop_now_ns() >= until_ns)
            return until_ns == leaves_ns ? lose(ledger) : give_up_row(ledger);
    }
    return DB_OK;
}

/* While it waited for a row that was then rolled back, somebody else may have written the key. */
enum db_result session_lock_key(struct ledger *ledger, enum table table, const struct row_key *key,
                                struct row **row_out)
{
    struct row *other = row_find(table, key);
    enum db_result result = DB_OK;
    do {
        *row_out = other ? other : row_make(table);
        result = session_lock(ledger, *row_out);
        other = row_find(table, key);
    } while (result == DB_OK && other && other != *row_out);
    return result;
}

/* ---- the server ---- */

void ledger_server_begin(void)
{
    static bool noticed = false;
    memset(&server, 0, sizeof server);
    tables_begin();
    tables_on_end(wake_waiters);
    if (!noticed)
        loop_on_death(on_death);
    noticed = true;
}

/* Loses rows that are visible but not on the disk. */
static void crash(void)
{
    server.epoch++;
    server.down_until_ns = loop_now_ns() + (int64_t)(1 + chance_effect(300)) * LOOP_MS;
    txn_rollback_all();
    tables_lose();
}

/* A session outside the service locks a row for a while. */
static void hold_row(void)
{
    static const enum table tables[] = {TABLE_SEGMENT, TABLE_SEGMENT, TABLE_SALE,
                                        TABLE_QUOTA,   TABLE_ORDER,   TABLE_KEY};
    for (int tries = 0; tries < HELD_TRIES_MAX; tries++) {
        struct row *row = table_row(tables[chance_effect(sizeof tables / sizeof tables[0])],
                                    chance_effect(HELD_TRIES_MAX));
        if (!row || row->owner || !row->was.there)
            continue;
        struct txn *txn = txn_begin();
        txn_take(txn, row);
        loop_at(loop_now_ns() + (int64_t)(1 + chance_effect(HELD_MS_MAX)) * LOOP_MS,
                end_by_rollback, txn, server.epoch);
        return;
    }
}

/* Lets faults strike the server when a statement arrives. */
static void befall(void)
{
    if (chance_strikes(FAULT_LEDGER_CRASH))
        crash();
    if (chance_strikes(FAULT_LEDGER_CLOCK))
        server.clock_step_ms = (int64_t)chance_effect(2 * STEP_MS_MAX) - STEP_MS_MAX;
    if (chance_strikes(FAULT_ROW_HELD))
        hold_row();
    if (chance_strikes(FAULT_LEDGER_READ_ONLY))
        server.read_only_until_ns = loop_now_ns() + (int64_t)(1 + chance_effect(500)) * LOOP_MS;
}

static bool is_gone(const struct ledger *ledger)
{
    return ledger->epoch != server.epoch;
}

/* ---- statements ---- */

static bool connect_now(struct ledger *ledger)
{
    if (ledger->connected)
        return true;
    if (loop_now_ns() < ledger->retry_at_ns)
        return false;
    task_sleep(CONNECT_NS);
    if (loop_now_ns() < server.down_until_ns) {
        ledger->delay_ns = ledger->delay_ns == 0 ? BACKOFF_MS_MIN * LOOP_MS : 2 * ledger->delay_ns;
        if (ledger->delay_ns > BACKOFF_MS_MAX * LOOP_MS)
            ledger->delay_ns = BACKOFF_MS_MAX * LOOP_MS;
        ledger->retry_at_ns = loop_now_ns() + ledger->delay_ns;
        return false;
    }
    ledger->delay_ns = 0;
    ledger->connected = true;
    ledger->connects++;
    ledger->epoch = server.epoch;
    return true;
}

enum db_result session_send(struct ledger *ledger, bool writes)
{
    ledger->task = task_current();
    bool connected = ledger->in_run ? ledger->connected : connect_now(ledger);
    ledger->in_doubt = false;
    if (!connected)
        return DB_FAILED;
    if (chance_strikes(FAULT_LEDGER_REQUEST_LOST))
        return lose(ledger);
    if (chance_strikes(FAULT_LEDGER_SLOW)) {
        task_sleep(ledger->timeout_ms * LOOP_MS);
        return lose(ledger);
    }
    task_travel(trip_ns());
    befall();
    if (is_gone(ledger))
        return lose(ledger);
    if (!writes || loop_now_ns() >= server.read_only_until_ns)
        return DB_OK;
    task_sleep(trip_ns()); /* the client leaves a server that takes no writes */
    ledger->connected = false;
    leave_txn(ledger, end_by_rollback, 1);
    return DB_FAILED;
}

enum db_result session_answer(struct ledger *ledger, enum db_result result)
{
    if (!ledger->connected) /* lost while it was carried out */
        return DB_FAILED;
    if (chance_strikes(FAULT_LEDGER_ANSWER_LOST))
        return lose(ledger);
    task_sleep(trip_ns());
    return is_gone(ledger) ? lose(ledger) : result;
}

static void sync_now(void *argument, uint32_t epoch)
{
    (void)argument;
    if (epoch == server.epoch)
        tables_sync();
}

/* The server flushes to its disk, whether its client still lives or not. */
enum db_result session_sync(struct ledger *ledger)
{
    uint32_t us_max = chance_delay(SYNC_SLOW_PART) == 0 ? SYNC_SLOW_US_MAX : SYNC_US_MAX;
    int64_t ns = (int64_t)(50 + chance_delay(us_max)) * 1000;
    loop_at(loop_now_ns() + ns, sync_now, NULL, server.epoch);
    task_travel(ns);
    if (!task_current())
        tables_sync();
    return is_gone(ledger) ? lose(ledger) : DB_OK;
}

/* ---- transactions ---- */

static enum db_result unknown(struct ledger *ledger)
{
    ledger->connected = false;
    return DB_UNKNOWN;
}

static enum db_result commit(struct ledger *ledger)
{
    if (!ledger->connected)
        return DB_FAILED;
    if (chance_strikes(FAULT_COMMIT_LOST)) {
        lose(ledger);
        return DB_UNKNOWN;
    }
    if (chance_strikes(FAULT_COMMIT_LATE)) {
        leave_txn(ledger, end_by_commit, LATE_MS_MAX);
        if (chance_effect(2) == 0)
            task_sleep(ledger->timeout_ms * LOOP_MS);
        return unknown(ledger);
    }
    task_travel(trip_ns());
    befall();
    if (is_gone(ledger))
        return unknown(ledger);
    struct txn *txn = ledger->txn;
    ledger->txn = NULL;
    txn_commit(txn);
    if (txn->wrote && session_sync(ledger) != DB_OK)
        return DB_UNKNOWN;
    if (chance_strikes(FAULT_COMMIT_ANSWER_LOST))
        return unknown(ledger);
    task_sleep(trip_ns());
    return is_gone(ledger) ? unknown(ledger) : DB_OK;
}

static void rollback(struct ledger *ledger)
{
    if (!ledger->txn)
        return;
    if (ledger->connected)
        task_travel(trip_ns());
    struct txn *txn = ledger->txn;
    ledger->txn = NULL;
    if (txn)
        txn_rollback(txn);
    if (ledger->connected)
        task_sleep(trip_ns());
}

static enum db_result run_once(struct ledger *ledger,
                               enum db_result (*body)(struct ledger *, void *), void *context)
{
    ledger->task = task_current();
    if (!connect_now(ledger))
        return DB_FAILED;
    ledger->in_run = true;
    ledger->txn = txn_begin();
    enum db_result result = body(ledger, context);
    if (result == DB_OK)
        result = commit(ledger);
    if (result != DB_OK && result != DB_UNKNOWN)
        rollback(ledger);
    ledger->in_run = false;
    return result;
}

enum db_result session_run(struct ledger *ledger, enum db_result (*body)(struct ledger *, void *),
                           void *context)
{
    enum db_result result = DB_SOFT;
    bool lost = false;
    ledger->held = false;
    for (int tries = 0; tries < RUN_TRIES_MAX && result == DB_SOFT && !ledger->held; tries++) {
        if (tries > 0)
            task_sleep((int64_t)(200 + chance_delay(2000)) * 1000);
        result = run_once(ledger, body, context);
        if (result == DB_FAILED && ledger->in_doubt && !lost) {
            lost = true;
            result = DB_SOFT;
        }
    }
    return result == DB_SOFT ? DB_FAILED : result;
}

static enum db_result read_once(struct ledger *ledger,
                                enum db_result (*statement)(struct ledger *, void *), void *context,
                                bool writes)
{
    enum db_result result = session_send(ledger, writes);
    ledger->held = false;
    if (result != DB_OK)
        return DB_FAILED;
    ledger->txn = txn_begin();
    result = statement(ledger, context);
    struct txn *txn = ledger->txn;
    ledger->txn = NULL;
    if (!txn) /* lost while it waited */
        return result;
    if (result == DB_OK)
        txn_commit(txn);
    else
        txn_rollback(txn);
    if (txn->wrote && result == DB_OK && session_sync(ledger) != DB_OK)
        return DB_FAILED;
    return session_answer(ledger, result);
}

enum ledger_result session_read(struct ledger *ledger,
                                enum db_result (*statement)(struct ledger *, void *), void *context,
                                bool writes)
{
    enum db_result result = read_once(ledger, statement, context, writes);
    if (result == DB_FAILED && ledger->in_doubt)
        result = read_once(ledger, statement, context, writes);
    return session_result(result == DB_SOFT ? DB_FAILED : result);
}

enum db_result session_confirm(struct ledger *ledger)
{
    enum db_result result = session_send(ledger, true);
    if (result != DB_OK)
        return result;
    ledger->txn->wrote = true;
    return session_answer(ledger, DB_OK);
}

enum ledger_result session_result(enum db_result result)
{
    switch (result) {
    case DB_OK:
        return LEDGER_OK;
    case DB_NO:
        return LEDGER_NO;
    case DB_DUPLICATE:
        return LEDGER_DUPLICATE;
    case DB_CHECK:
        return LEDGER_LIMIT;
    case DB_UNKNOWN:
        return LEDGER_UNKNOWN;
    default:
        return LEDGER_FAILED;
    }
}

/* ---- sql/ledger/ledger.h ---- */

bool ledger_met_held_row(const struct ledger *ledger)
{
    return ledger->held;
}

struct look {
    enum ledger_row_kind kind;
    struct ledger_row *rows;
    size_t count;
};

static enum db_result look_at_rows(struct ledger *ledger, void *context)
{
    struct look *look = context;
    for (size_t i = 0; i < look->count; i++) {
        struct ledger_row *asked = &look->rows[i];
        const struct row *row = look->kind == LEDGER_ROW_SALE ? row_of_sale(asked->sku)
                                : look->kind == LEDGER_ROW_SEGMENT
                                    ? row_of_segment(asked->sku, asked->number)
                                    : row_of_quota(asked->sku, asked->number, asked->user_id);
        asked->held = row && row->owner && row->owner != ledger->txn;
    }
    return DB_OK;
}

enum ledger_result ledger_rows_look(struct ledger *ledger, enum ledger_row_kind kind,
                                    struct ledger_row *rows, size_t count)
{
    struct look look = {kind, rows, count};
    enum ledger_result result = session_read(ledger, look_at_rows, &look, false);
    for (size_t i = 0; i < count && result != LEDGER_OK; i++)
        rows[i].held = false;
    return result;
}

void ledger_row_holder(struct ledger *ledger, char holder_out[LEDGER_HOLDER_SIZE])
{
    (void)ledger;
    holder_out[0] = '\0';
}

/* ---- sql/ledger/ledger.h ---- */

struct ledger *ledger_open(const char *url, int timeout_ms, char *error_out, size_t error_size)
{
    (void)url, (void)error_out, (void)error_size;
    struct ledger *ledger = calloc(1, sizeof *ledger);
    ledger->timeout_ms = timeout_ms;
    assert(server.session_count < SESSIONS_MAX);
    server.sessions[server.session_count++] = ledger;
    return ledger;
}

void ledger_close(struct ledger **ledger)
{
    *ledger = NULL;
}

uint64_t ledger_connection(const struct ledger *ledger)
{
    return ledger->connects;
}

uint64_t ledger_connect(struct ledger *ledger)
{
    if (!ledger->in_run)
        connect_now(ledger);
    return ledger->connects;
}

struct db_stats ledger_stats(const struct ledger *ledger)
{
    return (struct db_stats){.connects = ledger->connects};
}

const char *ledger_place(const struct ledger *ledger)
{
    (void)ledger;
    return "ledger";
}

struct fault *ledger_fault(struct ledger *ledger)
{
    return &ledger->fault;
}

const char *ledger_error(const struct ledger *ledger)
{
    (void)ledger;
    return "";
}

enum ledger_result ledger_ping(struct ledger *ledger)
{
    enum db_result result = session_send(ledger, false);
    return session_result(result == DB_OK ? session_answer(ledger, DB_OK) : result);
}

/* Checks the ledger's server: its constraints, its durability, its writes and its clock. */
#include "sql/server/server.h"

#include <mysqld_error.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql/db/db_servers.h"
#include "sql/ledger/ledger_query.h"

/* ---- what it does ---- */

/* No sale has this name: identifiers have no such character. Each connection has its own segment,
 * so that daemons that start together do not collide. */
#define PROBE "'#probe'"
#define SEGMENT "CONNECTION_ID()%4294967296"
#define ROW " WHERE sku=" PROBE " AND segment=" SEGMENT

static const struct {
    const char *statement;
    enum db_result result;
    uint64_t rows; /* with DB_OK */
    const char *wrong;
} steps[] = {
    {"INSERT INTO stock_segment(sku,segment,round,capacity,sold,fence,settings_version)"
     "VALUES(" PROBE "," SEGMENT ",1,2,1,0,0)",
     DB_OK, 1, "an INSERT of one row does not count one"},
    {"UPDATE stock_segment SET sold=3" ROW, DB_CHECK, 0,
     "CHECK(sold <= capacity) of stock_segment does not refuse more"},
    {"UPDATE stock_segment SET sold=2,fence=7" ROW " AND fence=0 AND sold+1<=capacity", DB_OK, 1,
     "an UPDATE of one row does not count one"},
    {"UPDATE stock_segment SET sold=2" ROW " AND fence=0", DB_OK, 0,
     "an UPDATE that finds no row counts one"},
    {"UPDATE stock_segment SET sold=2" ROW, DB_OK, 0,
     "an UPDATE that changes nothing counts its row"},
    {"INSERT INTO stock_segment(sku,segment,round,capacity,sold,fence,settings_version)"
     "VALUES(" PROBE "," SEGMENT ",1,2,1,8,0)ON DUPLICATE KEY UPDATE fence=VALUES(fence)",
     DB_OK, 2, "an INSERT that changes the row that is there does not count two"},
    {"INSERT INTO stock_segment(sku,segment,round,capacity,sold,fence,settings_version)"
     "VALUES(" PROBE "," SEGMENT ",1,2,1,8,0)ON DUPLICATE KEY UPDATE fence=VALUES(fence)",
     DB_OK, 0, "an INSERT that changes nothing counts the row that is there"},
    {"INSERT INTO stock_segment(sku,segment,round,capacity,sold,fence,settings_version)"
     "VALUES(" PROBE "," SEGMENT ",1,2,1,0,0)",
     DB_DUPLICATE, 0, "a second row with the same key is not refused"},
    {"INSERT INTO user_quota(sku,round,user_id,units,allowed,order_ids)"
     "VALUES(" PROBE ",1,CONNECTION_ID(),2,1,'')",
     DB_CHECK, 0, "CHECK(units <= allowed) of user_quota does not refuse more"},
};
enum { STEPS = sizeof steps / sizeof steps[0] };

/* Ends with DB_NO, so that everything is rolled back; DB_FAILED: not known. */
static enum db_result probe(struct db *db, const char **wrong_out)
{
    *wrong_out = "";
    for (size_t i = 0; i < STEPS; i++) {
        enum db_result result = db_query(db, steps[i].statement, strlen(steps[i].statement));
        if (result == DB_FAILED || result == DB_SOFT)
            return result;
        bool counted = result != DB_OK || db_affected(db, 0) == steps[i].rows;
        if (result != steps[i].result || !counted) {
            *wrong_out = steps[i].wrong;
            return DB_NO;
        }
    }
    return DB_NO;
}

enum ledger_result ledger_fit(struct ledger *ledger, char why_out[LEDGER_UNFIT_SIZE])
{
    const char *wrong = "";
    struct db_run run = {0};
    while (db_run(ledger->db, &run))
        run.result = probe(ledger->db, &wrong);
    if (run.result != DB_NO)
        return LEDGER_FAILED;
    snprintf(why_out, LEDGER_UNFIT_SIZE, "%s", wrong);
    return *wrong ? LEDGER_NO : LEDGER_OK;
}

/* ---- what it keeps ---- */

/* Every server answers these, with fewer rows when it does not know a name. */
static const char ask_variables[] =
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN('innodb_flush_log_at_trx_commit','log_bin',"
    "'sync_binlog','wsrep_on','wsrep_provider')OR Variable_name LIKE 'rpl_semi_sync%'";
static const char ask_status[] =
    "SHOW GLOBAL STATUS WHERE Variable_name IN('wsrep_cluster_size','Rpl_semi_sync_master_status',"
    "'Rpl_semi_sync_source_status')";

/* MySQL has two names for each setting of semi-synchronous replication; a server knows one. */
enum id {
    FLUSH,
    LOG_BIN,
    SYNC_BINLOG,
    WSREP_ON,
    WSREP_PROVIDER,
    ENABLED,
    WAIT_POINT,
    TIMEOUT,
    WAIT_ALONE,
    STATUS,
    SIZE,
    ID_COUNT
};

static const struct db_value unknown[ID_COUNT] = {
    [FLUSH] = {"innodb_flush_log_at_trx_commit"},
    [LOG_BIN] = {"log_bin"},
    [SYNC_BINLOG] = {"sync_binlog"},
    [WSREP_ON] = {"wsrep_on"},
    [WSREP_PROVIDER] = {"wsrep_provider"},
    [ENABLED] = {"rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled"},
    [WAIT_POINT] = {"rpl_semi_sync_master_wait_point", "rpl_semi_sync_source_wait_point"},
    [TIMEOUT] = {"rpl_semi_sync_master_timeout", "rpl_semi_sync_source_timeout"},
    [WAIT_ALONE] = {"rpl_semi_sync_master_wait_no_slave", "rpl_semi_sync_source_wait_no_replica"},
    [STATUS] = {"Rpl_semi_sync_master_status", "Rpl_semi_sync_source_status"},
    [SIZE] = {"wsrep_cluster_size"},
};

static enum db_result ask(struct ledger *ledger, struct db_value values[ID_COUNT])
{
    memcpy(values, unknown, sizeof unknown);
    enum db_result result = db_connect(ledger->db);
    if (result == DB_OK)
        result = db_values_ask(ledger->db, ask_variables, values, ID_COUNT);
    if (result != DB_OK || db_server_count(ledger->db) == 1)
        return result;
    return db_values_ask(ledger->db, ask_status, values, ID_COUNT);
}

static bool is_on(const struct db_value *value)
{
    return db_value_is(value, "ON") || db_value_is(value, "1");
}

static long long number(const struct db_value *value)
{
    return strtoll(value->text, NULL, 10);
}

/* Returns the first setting that makes a commit lose its place on the disk; NULL: none. */
static const struct db_value *weak_disk(const struct db_value values[ID_COUNT])
{
    if (db_value_is(&values[FLUSH], "0") || db_value_is(&values[FLUSH], "2"))
        return &values[FLUSH];
    if (is_on(&values[LOG_BIN]) && !db_value_is(&values[SYNC_BINLOG], "1"))
        return &values[SYNC_BINLOG];
    return NULL;
}

static bool is_galera(const struct db_value values[ID_COUNT])
{
    return is_on(&values[WSREP_ON]) && !db_value_is(&values[WSREP_PROVIDER], "none");
}

static const struct db_value *weak_replication(const struct db_value values[ID_COUNT])
{
    if (is_galera(values))
        return number(&values[SIZE]) < 2 ? &values[SIZE] : NULL;
    if (!is_on(&values[LOG_BIN]))
        return &values[LOG_BIN];
    if (!is_on(&values[ENABLED]))
        return &values[ENABLED];
    if (!db_value_is(&values[WAIT_POINT], "AFTER_SYNC"))
        return &values[WAIT_POINT];
    if (number(&values[TIMEOUT]) < LEDGER_SEMI_SYNC_MS_MIN)
        return &values[TIMEOUT];
    if (!is_on(&values[WAIT_ALONE]))
        return &values[WAIT_ALONE];
    return is_on(&values[STATUS]) ? NULL : &values[STATUS];
}

static const char *replication_advice(const struct db_value values[ID_COUNT],
                                      const struct db_value *weak)
{
    if (weak == &values[SIZE])
        return "start the other nodes of the cluster";
    if (weak == &values[STATUS])
        return "the primary goes on without its replicas: start one and let it come up to date";
    return "on the primary set log_bin, semi-synchronous replication, AFTER_SYNC, a time-out of a "
           "day or more and wait_no_slave";
}

enum ledger_result ledger_durable(struct ledger *ledger, struct ledger_weakness *weakness_out)
{
    struct db_value values[ID_COUNT];
    if (ask(ledger, values) != DB_OK)
        return LEDGER_FAILED;
    weakness_out->effect = "accepted orders may be lost when the ledger's machine loses power";
    weakness_out->advice = "set it to 1";
    bool several = db_server_count(ledger->db) > 1;
    weakness_out->replicated = several || is_galera(values) || is_on(&values[ENABLED]);
    const struct db_value *weak = weak_disk(values);
    if (!weak && several) {
        weak = weak_replication(values);
        weakness_out->effect = "accepted orders may be lost when the ledger's server dies and "
                               "another one takes its place";
        weakness_out->advice = replication_advice(values, weak);
    }
    if (!weak)
        return LEDGER_OK;
    snprintf(weakness_out->setting, sizeof weakness_out->setting, "%s=%s", weak->name,
             weak->text[0] != '\0' ? weak->text : "unknown");
    return LEDGER_NO;
}

/* ---- writes ---- */

/* why_no_variable: @@read_only does not bind every user, and there are several such variables
 * (super_read_only, innodb_read_only, innodb_force_recovery). With any of them the server refuses
 * the statement, whether it finds a row or not. */

/* No migration has an empty name. Rolled back, because a server with a statement-based binary log
 * would write a lone DELETE to it, rows or none, with an fsync. */
static const char write_nothing[] =
    "START TRANSACTION;DELETE FROM schema_version WHERE name='';ROLLBACK";

/* An error's text begins with its number. */
static enum ledger_write refusal(const char *error)
{
    switch (strtoul(error, NULL, 10)) {
    case ER_OPTION_PREVENTS_STATEMENT:             /* read_only, super_read_only */
    case ER_OPEN_AS_READONLY:                      /* innodb_read_only, innodb_force_recovery */
    case ER_CANT_EXECUTE_IN_READ_ONLY_TRANSACTION: /* transaction_read_only */
    case ER_READ_ONLY_MODE:
        return LEDGER_WRITE_READ_ONLY;
    case ER_NO_SUCH_TABLE:
        return LEDGER_WRITE_NO_TABLES;
    default:
        return LEDGER_WRITE_FAILED;
    }
}

enum ledger_write ledger_try_write(struct ledger *ledger)
{
    enum db_result result = db_query(ledger->db, write_nothing, sizeof write_nothing - 1);
    return result == DB_OK ? LEDGER_WRITE_OK : refusal(db_error(ledger->db));
}

/* Any account may see its own sessions. */
void ledger_wait_describe(struct ledger *ledger, char why_out[LEDGER_WAIT_SIZE])
{
    enum { ID = 0, STATE = 6 };
    static const char ask_sessions[] = "SHOW PROCESSLIST";
    struct db_wait wait = ledger_wait(ledger);
    const char *state = "the server does not say why";
    why_out[0] = '\0';
    if (wait.count == 0)
        return;
    if (db_query(ledger->db, ask_sessions, sizeof ask_sessions - 1) == DB_OK)
        for (char **row = db_row(ledger->db); row; row = db_row(ledger->db))
            if (ledger_u64(row[ID]) == wait.session && row[STATE] && row[STATE][0] != '\0')
                state = row[STATE];
    snprintf(why_out, LEDGER_WAIT_SIZE, "no answer to a write for %.1f s: %.80s",
             (double)wait.ms / 1000, state);
}

/* ---- time ---- */

enum ledger_result ledger_clock_ask(struct ledger *ledger, int64_t *us_out)
{
    *us_out = 0;
    char **row;
    bool told =
        ledger_read_row(ledger, &row,
                        "SELECT TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6))") ==
            LEDGER_OK &&
        row[0];
    if (told)
        *us_out = (int64_t)ledger_u64(row[0]);
    return told ? LEDGER_OK : LEDGER_FAILED;
}

/* Prepares the ledger's server for a daemon that starts: tables, accounts, the pod. */
#include "sql/server/server.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/url.h"
#include "sql/ledger/ledger.h"
#include "sql/ledger/ledger_query.h"
#include "sql_migrations.h"

/* ---- tables ---- */

enum {
    MIGRATIONS = sizeof sql_migrations / sizeof sql_migrations[0],
    LOCK_WAIT_S = 60,
    STATEMENT_MS_MAX = 3600 * 1000,
    TABLE_WAIT_S = 1,      /* a statement's longest wait for a table that is open elsewhere */
    TABLE_PAUSE_MS = 3000, /* between two tries */
    PAUSE_STEP_MS = 100,
};

static enum db_result run_text(struct ledger *ledger, const char *text)
{
    return db_query(ledger->db, text, strlen(text));
}

/* Runs a query whose answer is 1 for yes. Unless DB_OK, the answer is not known. */
static enum db_result ask(struct ledger *ledger, const char *question, bool *yes_out)
{
    *yes_out = false;
    enum db_result result = run_text(ledger, question);
    char **row = result == DB_OK ? db_row(ledger->db) : NULL;
    *yes_out = row && row[0] && strcmp(row[0], "1") == 0;
    return result;
}

/* Marks the files that were applied. Unless DB_OK, they are not known. */
static enum db_result read_applied(struct ledger *ledger, bool applied_out[MIGRATIONS])
{
    memset(applied_out, false, MIGRATIONS * sizeof *applied_out);
    enum db_result result = run_text(ledger, "SELECT name FROM schema_version");
    for (char **row = result == DB_OK ? db_row(ledger->db) : NULL; row; row = db_row(ledger->db))
        for (size_t i = 0; i < MIGRATIONS; i++)
            applied_out[i] |= row[0] && strcmp(row[0], sql_migrations[i].name) == 0;
    return result;
}

enum ledger_result ledger_schema_ask(struct ledger *ledger, struct ledger_schema *schema_out)
{
    bool versions = false, applied[MIGRATIONS] = {false};
    *schema_out = (struct ledger_schema){.files = MIGRATIONS};
    /* information_schema shows a table only to an account that may use it. */
    enum db_result result =
        ask(ledger,
            "SELECT COUNT(*)FROM information_schema.tables WHERE table_schema=DATABASE()"
            "AND table_name='schema_version'",
            &versions);
    if (result == DB_OK && versions)
        result = read_applied(ledger, applied);
    if (result != DB_OK)
        return LEDGER_FAILED;
    for (size_t i = 0; i < MIGRATIONS; i++)
        if (!applied[i] && schema_out->missing++ == 0)
            schema_out->first = sql_migrations[i].name;
    return schema_out->missing == 0 ? LEDGER_OK : LEDGER_NO;
}

/* why_short_waits: a statement that changes a table waits until nobody has it open, and later
 * statements queue behind it: one open SELECT would stop all orders. So it gives up after a second,
 * lets the others through, and is tried again. */
struct migration {
    struct ledger *ledger;
    bool (*go_on)(const struct ledger_migration *now, void *context);
    void *context;
    struct ledger_migration now;
    int64_t since_ms; /* of now.waited_ms */
    char holder[LEDGER_HOLDER_SIZE];
};

static void begin_wait(struct migration *migration, const char *name)
{
    migration->now.name = name;
    migration->now.holder = NULL;
    migration->since_ms = clock_now_ms();
}

static bool goes_on(void *context)
{
    struct migration *migration = context;
    migration->now.waited_ms = clock_now_ms() - migration->since_ms;
    return migration->now.waited_ms < STATEMENT_MS_MAX &&
           (!migration->go_on || migration->go_on(&migration->now, migration->context));
}

static bool pause_for_others(struct migration *migration)
{
    for (int ms = 0; ms < TABLE_PAUSE_MS; ms += PAUSE_STEP_MS) {
        clock_sleep_ns(PAUSE_STEP_MS * CLOCK_NS_PER_MS);
        if (!goes_on(migration))
            return false;
    }
    return true;
}

/* Sets the wait before each try, because the connection may be a new one. */
static enum db_result run_statement(struct migration *migration)
{
    char wait[64];
    snprintf(wait, sizeof wait, "SET SESSION lock_wait_timeout=%d", TABLE_WAIT_S);
    begin_wait(migration, migration->now.name);
    for (;;) {
        enum db_result result = run_text(migration->ledger, wait);
        if (result == DB_OK)
            result = ledger_query(migration->ledger);
        if (result != DB_SOFT)
            return result;
        ledger_table_holder(migration->ledger, migration->holder);
        migration->now.holder = migration->holder;
        if (!pause_for_others(migration))
            return DB_FAILED;
    }
}

/* Sends the statements one by one, because patience is for the first statement of a query. They end
 * in a semicolon at the end of a line; comments have lines of their own. */
static enum db_result run_statements(struct migration *migration, const char *text)
{
    struct sql_text *sql = &migration->ledger->sql;
    enum db_result result = DB_OK;
    sql_clear(sql);
    for (const char *line = text, *end; *line && result == DB_OK; line = *end ? end + 1 : end) {
        end = line + strcspn(line, "\n");
        if (strncmp(line, "--", 2) == 0)
            continue;
        sql_append(sql, line, (size_t)(end - line));
        sql_append(sql, "\n", 1);
        if (end == line || end[-1] != ';')
            continue;
        result = run_statement(migration);
        sql_clear(sql);
    }
    return result;
}

/* DDL commits by itself, so a file counts as applied only when its last statement has run: each
 * file can be run again. */
static enum db_result migrate_one(struct migration *migration, const char *name, const char *text)
{
    struct ledger *ledger = migration->ledger;
    begin_wait(migration, name);
    db_set_patience(ledger->db, goes_on, migration);
    enum db_result result = run_statements(migration, text);
    db_set_patience(ledger->db, NULL, NULL);
    run_text(ledger, "SET SESSION lock_wait_timeout=DEFAULT");
    if (result != DB_OK)
        return result;
    return ledger_do(ledger, "INSERT INTO schema_version(name)VALUES(%s)", name);
}

static enum db_result migrate_all(struct migration *migration)
{
    bool applied[MIGRATIONS];
    enum db_result result =
        run_text(migration->ledger, "CREATE TABLE IF NOT EXISTS schema_version("
                                    "name VARCHAR(64) NOT NULL PRIMARY KEY,"
                                    "applied_at DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)"
                                    ")ENGINE=InnoDB COMMENT='Migrations that were applied'");
    if (result == DB_OK)
        result = read_applied(migration->ledger, applied);
    for (size_t i = 0; i < MIGRATIONS && result == DB_OK; i++)
        if (!applied[i])
            result = migrate_one(migration, sql_migrations[i].name, sql_migrations[i].text);
    return result;
}

/* Its name carries the database's, because several databases may live on one server: as a hash,
 * because it has 64 characters at most. MySQL 9.6 knows neither MD5 nor SHA1. */
#define MIGRATION_LOCK "CONCAT('seckill_migrate.',LEFT(SHA2(DATABASE(),256),32))"

/* Another daemon may be migrating for a while, and the client's read timeout bounds each wait, so
 * the lock is asked for in steps of one second. */
static bool lock_migration(struct migration *migration)
{
    struct ledger *ledger = migration->ledger;
    bool locked = false;
    begin_wait(migration, NULL);
    for (int second = 0; second < LOCK_WAIT_S && !locked; second++) {
        if (second > 0 && !goes_on(migration))
            return false;
        enum db_result result = ask(ledger, "SELECT GET_LOCK(" MIGRATION_LOCK ",1)", &locked);
        if (result != DB_OK && db_connect(ledger->db) != DB_OK)
            return false;
    }
    return locked;
}

enum ledger_result ledger_migrate(struct ledger *ledger,
                                  bool (*go_on)(const struct ledger_migration *now, void *context),
                                  void *context)
{
    struct migration migration = {.ledger = ledger, .go_on = go_on, .context = context};
    struct ledger_schema schema;
    if (ledger_schema_ask(ledger, &schema) == LEDGER_OK)
        return LEDGER_OK;
    if (!lock_migration(&migration))
        return LEDGER_FAILED;
    enum db_result result = migrate_all(&migration);
    run_text(ledger, "DO RELEASE_LOCK(" MIGRATION_LOCK ")");
    return result == DB_OK ? LEDGER_OK : LEDGER_FAILED;
}

/* ---- accounts ---- */

enum { ACCOUNT_MAX = 32 - (sizeof "_migrate" - 1) }; /* MySQL 8 takes names of 32 characters */

/* Serving reads and writes rows; it makes no table, and changes none. */
static const char serving[] = "SELECT, INSERT, UPDATE, DELETE";
static const char migrating[] = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP";

/* Escapes _ and %, which are wildcards in the name of a database that rights are given on. */
static void print_database(FILE *out, const char *name)
{
    putc('`', out);
    for (; *name; name++) {
        if (*name == '_' || *name == '%')
            putc('\\', out);
        if (*name == '`')
            putc('`', out);
        putc(*name, out);
    }
    putc('`', out);
}

static void print_account(FILE *out, const struct url *url, const char *suffix)
{
    putc('\'', out);
    for (const char *at = url->user; *at; at++) {
        if (*at == '\'' || *at == '\\')
            putc('\\', out);
        putc(*at, out);
    }
    fprintf(out, "%s'@'%s'", suffix, url->socket[0] ? "localhost" : "%");
}

static void print_rights(FILE *out, const struct url *url, const char *suffix, const char *rights)
{
    fprintf(out, "-- CREATE USER ");
    print_account(out, url, suffix);
    fprintf(out, " IDENTIFIED BY 'a password'%s;\nGRANT %s\n  ON ", url->tls ? " REQUIRE SSL" : "",
            rights);
    print_database(out, url->database);
    fprintf(out, ".*\n  TO ");
    print_account(out, url, suffix);
    fprintf(out, ";\n-- To read in the log who holds rows or tables for long:\n");
    fprintf(out, "-- GRANT PROCESS ON *.* TO ");
    print_account(out, url, suffix);
    fprintf(out, ";\n");
}

bool ledger_grants_print(FILE *out, const char *url_text)
{
    char error[URL_ERROR_SIZE];
    struct url url;
    bool parsed = url_parse(url_text, "mysql", &url, error, sizeof error);
    assert(parsed); /* the configuration has been checked */
    if (url.user[0] == '\0' || strlen(url.user) > ACCOUNT_MAX)
        return false;
    fprintf(out, "-- The account that serves, with update_tables = off%s.\n",
            url.socket[0] ? "" : "; instead of % name the daemons' hosts");
    print_rights(out, &url, "", serving);
    fprintf(out, "\n-- The account for seckilld --migrate.\n");
    print_rights(out, &url, "_migrate", migrating);
    return true;
}

/* ---- the pod ---- */

/* Daemons that start together may insert at once: then the first one's row stays. */
enum ledger_result ledger_pod_claim(struct ledger *ledger, unsigned number, unsigned *found_out)
{
    char **row;
    enum ledger_result result = ledger_read_row(ledger, &row, "SELECT number FROM ledger_shard");
    if (result == LEDGER_NO)
        result = ledger_read_row(
            ledger, &row,
            "INSERT IGNORE INTO ledger_shard(number)VALUES(IF(EXISTS(SELECT 1 FROM sale)OR "
            "EXISTS(SELECT 1 FROM sale_round),0,%u));SELECT number FROM ledger_shard",
            number);
    if (result != LEDGER_OK)
        return LEDGER_FAILED;
    *found_out = ledger_u32(row[0]);
    return *found_out == number ? LEDGER_OK : LEDGER_NO;
}

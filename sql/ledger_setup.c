/* What a daemon asks of the ledger's server when it starts: the tables, made by the numbered files,
 * and whether a commit survives a crash. */
#include "sql/ledger_setup.h"

#include <stdio.h>
#include <string.h>

#include "sql/ledger_query.h"
#include "sql_migrations.h"

enum {
    MIGRATIONS = sizeof sql_migrations / sizeof sql_migrations[0],
    LOCK_WAIT_S = 60,
};

static enum db_result run_text(struct ledger *ledger, const char *text)
{
    return db_query(ledger->db, text, strlen(text));
}

/* Asks a question whose answer is 1 or something else. Not asked is not answered: anything but
 * DB_OK leaves it open. */
static enum db_result ask(struct ledger *ledger, const char *question, bool *yes_out)
{
    *yes_out = false;
    enum db_result result = run_text(ledger, question);
    char **row = result == DB_OK ? db_row(ledger->db) : NULL;
    *yes_out = row && row[0] && strcmp(row[0], "1") == 0;
    return result;
}

/* DDL commits by itself, so a file counts as applied only when its last statement has run: each
 * file can be run again. */
static enum db_result migrate_one(struct ledger *ledger, const char *name, const char *text)
{
    char question[128], note[128];
    bool applied = false;
    snprintf(question, sizeof question, "SELECT COUNT(*) FROM schema_version WHERE name='%s'",
             name);
    enum db_result result = ask(ledger, question, &applied);
    if (result != DB_OK || applied)
        return result;
    result = run_text(ledger, text);
    if (result != DB_OK)
        return result;
    snprintf(note, sizeof note, "INSERT INTO schema_version(name)VALUES('%s')", name);
    return run_text(ledger, note);
}

static enum db_result migrate_all(struct ledger *ledger)
{
    enum db_result result =
        run_text(ledger, "CREATE TABLE IF NOT EXISTS schema_version("
                         "name VARCHAR(64) NOT NULL PRIMARY KEY,"
                         "applied_at DATETIME(3) NOT NULL DEFAULT CURRENT_TIMESTAMP(3)"
                         ")ENGINE=InnoDB COMMENT='Migrations that were applied'");
    for (size_t i = 0; i < MIGRATIONS && result == DB_OK; i++)
        result = migrate_one(ledger, sql_migrations[i].name, sql_migrations[i].text);
    return result;
}

/* Another daemon may be migrating for a while, and the client's read timeout bounds each wait, so
 * the lock is asked for in steps of one second. Its name carries the database's, because several
 * databases may live on one server. */
static bool lock_migration(struct ledger *ledger)
{
    bool locked = false;
    for (int second = 0; second < LOCK_WAIT_S && !locked; second++) {
        enum db_result result =
            ask(ledger, "SELECT GET_LOCK(CONCAT('seckill_migrate.',MD5(DATABASE())),1)", &locked);
        if (result != DB_OK && db_connect(ledger->db) != DB_OK)
            return false;
    }
    return locked;
}

enum ledger_result ledger_migrate(struct ledger *ledger)
{
    if (!lock_migration(ledger))
        return LEDGER_FAILED;
    enum db_result result = migrate_all(ledger);
    run_text(ledger, "DO RELEASE_LOCK(CONCAT('seckill_migrate.',MD5(DATABASE())))");
    return result == DB_OK ? LEDGER_OK : LEDGER_FAILED;
}

enum ledger_result ledger_durable(struct ledger *ledger, char *why_out, size_t size)
{
    enum db_result asked =
        run_text(ledger, "SELECT @@innodb_flush_log_at_trx_commit,@@log_bin,@@sync_binlog");
    char **row = asked == DB_OK ? db_row(ledger->db) : NULL;
    if (!row)
        return LEDGER_FAILED;
    uint32_t flush = ledger_u32(row[0]);
    if (flush == 0 || flush == 2)
        snprintf(why_out, size, "innodb_flush_log_at_trx_commit=%u", flush);
    else if (ledger_u32(row[1]) != 0 && ledger_u32(row[2]) != 1)
        snprintf(why_out, size, "log_bin=1 sync_binlog=%u", ledger_u32(row[2]));
    else
        return LEDGER_OK;
    return LEDGER_NO;
}

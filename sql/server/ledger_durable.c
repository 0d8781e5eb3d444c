/* Whether a committed order outlives its server. */
#include "sql/server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sql/ledger/ledger_query.h"

/* All servers answer these for names that they do not know, too: by rows that are missing. */
static const char ask_variables[] =
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN('innodb_flush_log_at_trx_commit','log_bin',"
    "'sync_binlog','wsrep_on','wsrep_provider')OR Variable_name LIKE 'rpl_semi_sync%'";
static const char ask_status[] =
    "SHOW GLOBAL STATUS WHERE Variable_name IN('wsrep_cluster_size','Rpl_semi_sync_master_status',"
    "'Rpl_semi_sync_master_clients','Rpl_semi_sync_source_status',"
    "'Rpl_semi_sync_source_clients')";

/* MySQL has two names for each setting of semi-synchronous replication, of which a server knows one
 * or the other. */
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
    CLIENTS,
    SIZE,
    ID_COUNT
};

static const struct {
    const char *name, *other;
} names[ID_COUNT] = {
    [FLUSH] = {"innodb_flush_log_at_trx_commit", ""},
    [LOG_BIN] = {"log_bin", ""},
    [SYNC_BINLOG] = {"sync_binlog", ""},
    [WSREP_ON] = {"wsrep_on", ""},
    [WSREP_PROVIDER] = {"wsrep_provider", ""},
    [ENABLED] = {"rpl_semi_sync_master_enabled", "rpl_semi_sync_source_enabled"},
    [WAIT_POINT] = {"rpl_semi_sync_master_wait_point", "rpl_semi_sync_source_wait_point"},
    [TIMEOUT] = {"rpl_semi_sync_master_timeout", "rpl_semi_sync_source_timeout"},
    [WAIT_ALONE] = {"rpl_semi_sync_master_wait_no_slave", "rpl_semi_sync_source_wait_no_replica"},
    [STATUS] = {"Rpl_semi_sync_master_status", "Rpl_semi_sync_source_status"},
    [CLIENTS] = {"Rpl_semi_sync_master_clients", "Rpl_semi_sync_source_clients"},
    [SIZE] = {"wsrep_cluster_size", ""},
};

struct value {
    const char *name; /* as the server calls it */
    char text[32];    /* "" when it does not know it */
};

static void read_values(struct db *db, struct value values[ID_COUNT])
{
    for (char **row = db_row(db); row; row = db_row(db))
        for (size_t i = 0; i < ID_COUNT && row[0] && row[1]; i++) {
            bool other = strcmp(row[0], names[i].other) == 0;
            if (!other && strcmp(row[0], names[i].name) != 0)
                continue;
            values[i].name = other ? names[i].other : names[i].name;
            snprintf(values[i].text, sizeof values[i].text, "%s", row[1]);
        }
}

static enum db_result ask(struct ledger *ledger, struct value values[ID_COUNT])
{
    for (size_t i = 0; i < ID_COUNT; i++)
        values[i] = (struct value){.name = names[i].name};
    enum db_result result = db_query(ledger->db, ask_variables, sizeof ask_variables - 1);
    if (result == DB_OK)
        read_values(ledger->db, values);
    if (result != DB_OK || db_server_count(ledger->db) == 1)
        return result;
    result = db_query(ledger->db, ask_status, sizeof ask_status - 1);
    if (result == DB_OK)
        read_values(ledger->db, values);
    return result;
}

static bool is(const struct value *value, const char *text)
{
    return strcmp(value->text, text) == 0;
}

static bool is_on(const struct value *value)
{
    return is(value, "ON") || is(value, "1");
}

static long long number(const struct value *value)
{
    return strtoll(value->text, NULL, 10);
}

/* The first of these that is so. */
static const struct value *weak_disk(const struct value values[ID_COUNT])
{
    if (is(&values[FLUSH], "0") || is(&values[FLUSH], "2"))
        return &values[FLUSH];
    if (is_on(&values[LOG_BIN]) && !is(&values[SYNC_BINLOG], "1"))
        return &values[SYNC_BINLOG];
    return NULL;
}

static const struct value *weak_replication(const struct value values[ID_COUNT])
{
    if (is_on(&values[WSREP_ON]) && !is(&values[WSREP_PROVIDER], "none"))
        return number(&values[SIZE]) < 2 ? &values[SIZE] : NULL;
    if (!is_on(&values[LOG_BIN]))
        return &values[LOG_BIN];
    if (!is_on(&values[ENABLED]))
        return &values[ENABLED];
    if (!is(&values[WAIT_POINT], "AFTER_SYNC"))
        return &values[WAIT_POINT];
    if (number(&values[TIMEOUT]) < LEDGER_SEMI_SYNC_MS_MIN)
        return &values[TIMEOUT];
    if (!is_on(&values[WAIT_ALONE]))
        return &values[WAIT_ALONE];
    if (!is_on(&values[STATUS]))
        return &values[STATUS];
    return number(&values[CLIENTS]) < 1 ? &values[CLIENTS] : NULL;
}

static const char *replication_advice(const struct value values[ID_COUNT], const struct value *weak)
{
    if (weak == &values[SIZE])
        return "start the other nodes of the cluster";
    if (weak == &values[CLIENTS])
        return "start a semi-synchronous replica: commits wait for one";
    if (weak == &values[STATUS])
        return "the primary goes on without its replicas: start one and let it come up to date";
    return "on the primary set log_bin, semi-synchronous replication, AFTER_SYNC, a time-out of a "
           "day or more and wait_no_slave";
}

enum ledger_result ledger_durable(struct ledger *ledger, struct ledger_weakness *weakness_out)
{
    struct value values[ID_COUNT];
    if (ask(ledger, values) != DB_OK)
        return LEDGER_FAILED;
    weakness_out->effect = "accepted orders may be lost when the ledger's machine loses power";
    weakness_out->advice = "set it to 1";
    const struct value *weak = weak_disk(values);
    if (!weak && db_server_count(ledger->db) > 1) {
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

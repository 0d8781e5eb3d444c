/* What a server of a list says of its part, and which one of the list to write to.
 *
 * why_the_variables: an account that may write to a read-only server would write to a replica. So
 * of several servers the one that is set to read-only is none to write to, whatever it accepts.
 *
 * why_not_any_galera_node: a node that is not in the primary component refuses, and one that joins
 * is not up to date. A donor, or one that is desynchronised by hand, lags, so that each statement
 * waits until it has caught up; but it may be the last one that there is.
 *
 * why_the_composition: two halves of a cluster that were both made primary by hand carry the same
 * name; what tells them apart is the number of their composition. */
#include "sql/db/db_role.h"

#include <stdio.h>
#include <string.h>

static const char ask_variables[] =
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN('read_only','super_read_only',"
    "'innodb_read_only','wsrep_on','wsrep_provider','hostname','port','server_id')";
static const char ask_status[] =
    "SHOW GLOBAL STATUS WHERE Variable_name IN('wsrep_ready','wsrep_cluster_status',"
    "'wsrep_local_state','wsrep_cluster_state_uuid','wsrep_cluster_conf_id')";

enum { VALUE_SIZE = 64 };

struct value {
    const char *name;
    char text[VALUE_SIZE]; /* "" when the server does not know the name */
};

static void read_values(struct db *db, struct value *values, size_t count)
{
    for (char **row = db_row(db); row; row = db_row(db))
        for (size_t i = 0; i < count; i++)
            if (row[0] && row[1] && strcmp(row[0], values[i].name) == 0)
                snprintf(values[i].text, sizeof values[i].text, "%s", row[1]);
}

static bool is(const struct value *value, const char *text)
{
    return strcmp(value->text, text) == 0;
}

/* MariaDB 12 knows more words for it than ON. */
static bool is_off(const struct value *value)
{
    return value->text[0] == '\0' || is(value, "OFF") || is(value, "0");
}

static void refuse(struct db_role *role, const struct value *value)
{
    role->writable = false;
    snprintf(role->why, sizeof role->why, "%s=%s", value->name, value->text);
}

static enum db_result ask_galera(struct db *db, struct db_role *role)
{
    enum { READY, STATUS, STATE, CLUSTER, COMPOSITION, COUNT };
    struct value values[COUNT] = {{.name = "wsrep_ready"},
                                  {.name = "wsrep_cluster_status"},
                                  {.name = "wsrep_local_state"},
                                  {.name = "wsrep_cluster_state_uuid"},
                                  {.name = "wsrep_cluster_conf_id"}};
    enum db_result result = db_query(db, ask_status, sizeof ask_status - 1);
    if (result != DB_OK)
        return result;
    read_values(db, values, COUNT);
    snprintf(role->cluster, sizeof role->cluster, "%s:%.20s", values[CLUSTER].text,
             values[COMPOSITION].text);
    role->lags = is(&values[STATE], "2"); /* a donor, or desynchronised */
    if (!is(&values[STATUS], "Primary"))
        refuse(role, &values[STATUS]);
    else if (!is(&values[READY], "ON"))
        refuse(role, &values[READY]);
    else if (!role->lags && !is(&values[STATE], "4")) /* synced */
        refuse(role, &values[STATE]);
    return DB_OK;
}

static enum db_result ask(struct db *db, struct db_role *role)
{
    enum { READ_ONLY, SUPER, INNODB, WSREP, PROVIDER, NAME, PORT, NUMBER, COUNT };
    struct value values[COUNT] = {
        {.name = "read_only"}, {.name = "super_read_only"}, {.name = "innodb_read_only"},
        {.name = "wsrep_on"},  {.name = "wsrep_provider"},  {.name = "hostname"},
        {.name = "port"},      {.name = "server_id"},
    };
    enum db_result result = db_query(db, ask_variables, sizeof ask_variables - 1);
    if (result != DB_OK)
        return result;
    read_values(db, values, COUNT);
    role->answers = role->writable = true;
    snprintf(role->server, sizeof role->server, "%s:%.8s:%.12s", values[NAME].text,
             values[PORT].text, values[NUMBER].text);
    for (size_t i = READ_ONLY; i <= INNODB && role->writable; i++)
        if (!is_off(&values[i]))
            refuse(role, &values[i]);
    bool galera = !is_off(&values[WSREP]) && !is(&values[PROVIDER], "none");
    return galera ? ask_galera(db, role) : DB_OK;
}

enum db_result db_role_ask(struct db *db, struct db_role *role_out)
{
    *role_out = (struct db_role){.answers = false};
    enum db_result result = ask(db, role_out);
    if (result != DB_OK) {
        role_out->answers = role_out->writable = false;
        snprintf(role_out->why, sizeof role_out->why, "%.120s", db_error(db));
    }
    return result;
}

static bool are_one(const struct db_role *left, const struct db_role *right)
{
    bool one_cluster = left->cluster[0] != '\0' && strcmp(left->cluster, right->cluster) == 0;
    return one_cluster || strcmp(left->server, right->server) == 0;
}

/* The cluster's own number, without that of its composition. */
static size_t cluster_length(const struct db_role *role)
{
    return strcspn(role->cluster, ":");
}

bool db_role_one_cluster(const struct db_role *roles, size_t count)
{
    const struct db_role *first = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!roles[i].writable)
            continue;
        size_t length = cluster_length(&roles[i]);
        if (!first)
            first = &roles[i];
        if (length == 0 || length != cluster_length(first) ||
            strncmp(first->cluster, roles[i].cluster, length) != 0)
            return false;
    }
    return first;
}

int db_role_choose(const struct db_role *roles, size_t count, bool *split_out)
{
    int found = -1;
    *split_out = false;
    for (size_t i = 0; i < count; i++) {
        if (!roles[i].writable)
            continue;
        if (found >= 0 && !are_one(&roles[found], &roles[i]))
            *split_out = true;
        if (found < 0 || (roles[found].lags && !roles[i].lags))
            found = (int)i;
    }
    return *split_out ? -1 : found;
}

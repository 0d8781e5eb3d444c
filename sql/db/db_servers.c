/* The servers of one ledger, as all clients of this process know them, and what each says of its
 * part.
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
#include "sql/db/db_servers.h"

#include <assert.h>
#include <errmsg.h>
#include <mysqld_error.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/memory.h"
#include "base/worker.h"

/* ---- the part of a server ---- */

static const char ask_variables[] =
    "SHOW GLOBAL VARIABLES WHERE Variable_name IN('read_only','super_read_only',"
    "'innodb_read_only','wsrep_on','wsrep_provider','hostname','port','server_id')";
static const char ask_status[] =
    "SHOW GLOBAL STATUS WHERE Variable_name IN('wsrep_ready','wsrep_cluster_status',"
    "'wsrep_local_state','wsrep_cluster_state_uuid','wsrep_cluster_conf_id')";

enum db_result db_values_ask(struct db *db, const char *question, struct db_value *values,
                             size_t count)
{
    enum db_result result = db_execute(db, question, strlen(question));
    for (char **row = result == DB_OK ? db_row(db) : NULL; row; row = db_row(db))
        for (size_t i = 0; i < count && row[0] && row[1]; i++) {
            struct db_value *value = &values[i];
            if (value->other && strcmp(row[0], value->other) == 0)
                value->name = value->other;
            if (strcmp(row[0], value->name) == 0)
                snprintf(value->text, sizeof value->text, "%s", row[1]);
        }
    return result;
}

bool db_value_is(const struct db_value *value, const char *text)
{
    return strcmp(value->text, text) == 0;
}

/* MariaDB 12 knows more words for it than ON. */
static bool is_off(const struct db_value *value)
{
    return value->text[0] == '\0' || db_value_is(value, "OFF") || db_value_is(value, "0");
}

static void refuse(struct db_role *role, const struct db_value *value)
{
    role->writable = false;
    snprintf(role->why, sizeof role->why, "%s=%s", value->name, value->text);
}

static enum db_result ask_galera(struct db *db, struct db_role *role)
{
    enum { READY, STATUS, STATE, CLUSTER, COMPOSITION, COUNT };
    struct db_value values[COUNT] = {{.name = "wsrep_ready"},
                                     {.name = "wsrep_cluster_status"},
                                     {.name = "wsrep_local_state"},
                                     {.name = "wsrep_cluster_state_uuid"},
                                     {.name = "wsrep_cluster_conf_id"}};
    enum db_result result = db_values_ask(db, ask_status, values, COUNT);
    if (result != DB_OK)
        return result;
    snprintf(role->cluster, sizeof role->cluster, "%s:%.20s", values[CLUSTER].text,
             values[COMPOSITION].text);
    role->lags = db_value_is(&values[STATE], "2"); /* a donor, or desynchronised */
    if (!db_value_is(&values[STATUS], "Primary"))
        refuse(role, &values[STATUS]);
    else if (!db_value_is(&values[READY], "ON"))
        refuse(role, &values[READY]);
    else if (!role->lags && !db_value_is(&values[STATE], "4")) /* synced */
        refuse(role, &values[STATE]);
    return DB_OK;
}

static enum db_result ask(struct db *db, struct db_role *role)
{
    enum { READ_ONLY, SUPER, INNODB, WSREP, PROVIDER, NAME, PORT, NUMBER, COUNT };
    struct db_value values[COUNT] = {
        {.name = "read_only"}, {.name = "super_read_only"}, {.name = "innodb_read_only"},
        {.name = "wsrep_on"},  {.name = "wsrep_provider"},  {.name = "hostname"},
        {.name = "port"},      {.name = "server_id"},
    };
    enum db_result result = db_values_ask(db, ask_variables, values, COUNT);
    if (result != DB_OK)
        return result;
    role->answers = role->writable = true;
    snprintf(role->server, sizeof role->server, "%s:%.8s:%.12s", values[NAME].text,
             values[PORT].text, values[NUMBER].text);
    for (size_t i = READ_ONLY; i <= INNODB && role->writable; i++)
        if (!is_off(&values[i]))
            refuse(role, &values[i]);
    bool galera = !is_off(&values[WSREP]) && !db_value_is(&values[PROVIDER], "none");
    return galera ? ask_galera(db, role) : DB_OK;
}

enum db_result db_role_ask(struct db *db, struct db_role *role_out)
{
    *role_out = (struct db_role){.answers = false};
    enum db_result result = ask(db, role_out);
    if (result != DB_OK) {
        role_out->answers = role_out->writable = false;
        snprintf(role_out->why, sizeof role_out->why, "%.120s", db->error);
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

/* ---- */

struct asker {
    struct db_servers *servers;
    struct db *db; /* its own connection to one server, kept from look to look */
    struct db_role role;
    pthread_t thread;
    bool started;
};

struct db_servers {
    struct db_servers *next;
    unsigned users;
    char *url;
    size_t count;
    struct asker askers[URL_SERVERS_MAX];
    _Atomic uint64_t present; /* its number, and in the lowest byte its place and 1; 0: none yet */
    _Atomic bool split, silent;
    /* Under `mutex`: */
    size_t asking; /* askers that have not ended; 0: no look is under way */
    uint64_t looks;
    int64_t ended_ms; /* of the last look */
    bool doubted;     /* it found nodes of one cluster split, which the next one is to confirm */
    unsigned code;    /* why the last look has found none; 0: it has */
    char why[DB_SERVERS_WHY_SIZE];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER; /* of all of them: it is seldom taken */
static pthread_cond_t ended;
static struct db_servers *all;

/* ---- fork ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&mutex);
}

/* The child has none of the askers, and their connections are the parent's. */
static void in_child(void)
{
    for (struct db_servers *i = all; i; i = i->next) {
        i->asking = 0;
        for (size_t s = 0; s < i->count; s++) {
            i->askers[s].started = false;
            db_forget(&i->askers[s].db);
        }
    }
    all = NULL; /* the parent's clients are not for the child: what it opens is its own */
    clock_condition_init(&ended);
    pthread_mutex_unlock(&mutex);
}

/* A fork calls what was registered last first. Registered when the program or library is loaded,
 * this one comes after those of the program and of lock/, which may hold mutexes of their own while
 * they open a ledger. */
static void __attribute__((constructor)) begin(void)
{
    clock_condition_init(&ended);
    pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- what a look has found ---- */

static void set_present(struct db_servers *servers, int place)
{
    uint64_t now = atomic_load(&servers->present);
    uint64_t low = (uint64_t)place + 1;
    if ((now & 0xff) != low)
        atomic_store(&servers->present, ((now >> 8) + 1) << 8 | low);
}

/* "a:3306 read_only=ON, b:3306 2002: Can't connect": cut to what fits. */
static void explain(struct db_servers *servers, bool split)
{
    size_t length = 0;
    bool refuse = true;
    servers->why[0] = '\0';
    for (size_t i = 0; i < servers->count; i++) {
        const struct db_role *role = &servers->askers[i].role;
        refuse = refuse && role->answers;
        if (length < sizeof servers->why)
            length += (size_t)snprintf(servers->why + length, sizeof servers->why - length,
                                       "%s%s %s", i > 0 ? ", " : "", servers->askers[i].db->place,
                                       role->writable ? "takes writes" : role->why);
    }
    servers->code = refuse && !split ? ER_OPTION_PREVENTS_STATEMENT : CR_CONN_HOST_ERROR;
}

/* Where nobody takes writes the present server stays: each connection asks it again, and it may be
 * back before the next look; while it is silent, they wait for that look. Where two take writes,
 * nobody may write to either; but nodes of one Galera cluster hear of a change one after the other,
 * so two looks must say it of them. */
static void conclude(struct db_servers *servers)
{
    struct db_role roles[URL_SERVERS_MAX];
    bool split = false;
    for (size_t i = 0; i < servers->count; i++)
        roles[i] = servers->askers[i].role;
    int place = db_role_choose(roles, servers->count, &split);
    bool known = servers->doubted || atomic_load(&servers->split);
    servers->doubted = split && !known && db_role_one_cluster(roles, servers->count);
    servers->code = 0;
    uint64_t present = atomic_load(&servers->present) & 0xff;
    atomic_store(&servers->silent, place < 0 && present > 0 && !roles[present - 1].answers);
    if (place < 0)
        explain(servers, split);
    split = split && !servers->doubted;
    if (place >= 0 || split)
        set_present(servers, place);
    atomic_store(&servers->split, split);
    servers->looks++;
    servers->ended_ms = clock_now_ms();
    pthread_cond_broadcast(&ended);
}

/* ---- the look ---- */

static void ask_role(struct asker *asker)
{
    struct db *db = asker->db;
    if (!db->mysql)
        db_connect_server(db, clock_now_ms() + DB_LOOK_MS);
    db->until_ms = 0;
    db_role_ask(db, &asker->role);
}

/* A connection that was kept may have been lost meanwhile, which says nothing of the server. */
static void *ask_server(void *context)
{
    struct asker *asker = context;
    bool kept = asker->db->mysql != NULL;
    ask_role(asker);
    if (kept && !asker->role.answers && asker->db->in_doubt)
        ask_role(asker);
    pthread_mutex_lock(&mutex);
    assert(asker->servers->asking > 0);
    if (--asker->servers->asking == 0)
        conclude(asker->servers);
    pthread_mutex_unlock(&mutex);
    return NULL;
}

static void start(struct db_servers *servers)
{
    servers->asking = servers->count;
    for (size_t i = 0; i < servers->count; i++) {
        struct asker *asker = &servers->askers[i];
        if (asker->started) /* it has ended, or is about to */
            pthread_join(asker->thread, NULL);
        asker->started = worker_thread(&asker->thread, ask_server, asker);
        if (asker->started)
            continue;
        asker->role = (struct db_role){.why = "no thread to ask it"};
        if (--servers->asking == 0)
            conclude(servers);
    }
}

static void look(struct db_servers *servers, int pause_ms)
{
    if (servers->doubted)
        pause_ms = DB_LOOK_PAUSE_MS;
    bool soon = servers->looks > 0 && clock_now_ms() - servers->ended_ms < pause_ms;
    if (servers->asking == 0 && !soon)
        start(servers);
}

void db_servers_look(struct db_servers *servers, int pause_ms)
{
    pthread_mutex_lock(&mutex);
    look(servers, pause_ms);
    pthread_mutex_unlock(&mutex);
}

bool db_servers_find(struct db_servers *servers, int wait_ms, unsigned *code_out,
                     char why_out[DB_SERVERS_WHY_SIZE])
{
    uint64_t number;
    int64_t until_ns = clock_now_ns() + wait_ms * CLOCK_NS_PER_MS;
    pthread_mutex_lock(&mutex);
    look(servers, DB_LOOK_PAUSE_MS);
    bool in_time = true;
    while (servers->asking > 0 && in_time)
        in_time = clock_wait(&ended, &mutex, until_ns);
    bool over = servers->asking == 0;
    assert(!over || servers->code != 0 || db_servers_present(servers, &number) >= 0);
    *code_out = servers->code;
    snprintf(why_out, DB_SERVERS_WHY_SIZE, "%s",
             servers->looks > 0 ? servers->why : "no server has answered yet");
    pthread_mutex_unlock(&mutex);
    return over;
}

int db_servers_present(struct db_servers *servers, uint64_t *number_out)
{
    uint64_t present = atomic_load(&servers->present);
    *number_out = present >> 8;
    return atomic_load(&servers->silent) ? -1 : (int)(present & 0xff) - 1;
}

bool db_servers_split(struct db_servers *servers)
{
    return atomic_load(&servers->split);
}

/* ---- its users ---- */

static struct db_servers *make(const char *url)
{
    char error[URL_ERROR_SIZE];
    struct db_servers *servers = memory_must(calloc(1, sizeof *servers));
    servers->url = memory_must(strdup(url));
    servers->code = CR_CONN_HOST_ERROR;
    do {
        struct asker *asker = &servers->askers[servers->count];
        asker->servers = servers;
        asker->db = db_open_one(url, servers->count, DB_LOOK_MS, error, sizeof error);
        if (!asker->db)
            abort(); /* the URL was read before by the same function */
    } while (++servers->count < servers->askers[0].db->url.server_count);
    return servers;
}

struct db_servers *db_servers_get(const char *url)
{
    pthread_mutex_lock(&mutex);
    struct db_servers *servers = all;
    while (servers && strcmp(servers->url, url) != 0)
        servers = servers->next;
    if (!servers) {
        servers = make(url);
        servers->next = all;
        all = servers;
    }
    servers->users++;
    pthread_mutex_unlock(&mutex);
    return servers;
}

static void unlink_servers(const struct db_servers *servers)
{
    for (struct db_servers **link = &all; *link; link = &(*link)->next)
        if (*link == servers) {
            *link = servers->next;
            return;
        }
}

/* The askers lock the mutex at their end, so they are joined without it. */
static void free_servers(struct db_servers *servers)
{
    for (size_t i = 0; i < servers->count; i++) {
        if (servers->askers[i].started)
            pthread_join(servers->askers[i].thread, NULL);
        db_close_one(&servers->askers[i].db);
    }
    free(servers->url);
    free(servers);
}

void db_servers_drop(struct db_servers **servers)
{
    if (!*servers)
        return;
    pthread_mutex_lock(&mutex);
    assert((*servers)->users > 0);
    bool last = --(*servers)->users == 0;
    if (last)
        unlink_servers(*servers);
    pthread_mutex_unlock(&mutex);
    if (last)
        free_servers(*servers);
    *servers = NULL;
}

/* Keeps a cluster client's knowledge of the slots, and a connection to each node; run.c has its
 * pipelines.
 *
 * why_learn: the slots are learnt from any server at the first use, and again when a sign shows a
 * change: MOVED, a lost node, CLUSTERDOWN. A node may know less than the others, or be cut off, so
 * each question goes to the next node that answers; a wrong answer costs one MOVED. A delay between
 * two questions bounds their number while a cluster changes for long, as in a resharding, or stays
 * down. */
#include "lua/cluster/core.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "lua/cluster/cluster.h"

enum { LATE_MS = 1 }; /* for the replies of further nodes after one has used up the time-out */

/* ---- the nodes ---- */

/* Prefixes the node's address, so that the seed server is not blamed. */
void cluster_note(struct cluster *cluster, int node, const char *doing, const char *error)
{
    char place[URL_PLACE_SIZE] = "", text[URL_PLACE_SIZE + 256];
    if (node != CLUSTER_NO_NODE) /* it may have no client yet */
        url_server_place(cluster->map.nodes[node]->host, cluster->map.nodes[node]->port, place);
    snprintf(text, sizeof text, "%s%s%s", place, place[0] ? ": " : "", error);
    redis_set_doing(cluster->seed, doing);
    redis_set_error(cluster->seed, text);
}

struct redis *cluster_client(struct cluster *cluster, int index)
{
    struct cluster_node *node = cluster->map.nodes[index];
    if (!node->redis)
        node->redis = redis_open_node(&cluster->url, node->host, node->port, cluster->timeout_ms);
    return node->redis;
}

/* Returns half of the rest of the time-out, so that other nodes have a share as well. */
static int share_ms(const struct cluster *cluster)
{
    int64_t left_ms = (cluster->until_ms - clock_now_ms()) / 2;
    return left_ms < 1 ? 1 : left_ms < cluster->timeout_ms ? (int)left_ms : cluster->timeout_ms;
}

/* Copies the seed's time-out, which is also the cluster's, because setting it changes both. */
static bool connect_in_time(struct cluster *cluster, struct redis *redis)
{
    if (redis_connected(redis))
        return true;
    int timeout_ms = cluster->timeout_ms;
    redis_set_timeout(redis, share_ms(cluster));
    bool connected = redis_connect(redis) == REDIS_ANSWERED;
    redis_set_timeout(redis, timeout_ms);
    return connected;
}

static redisReply *receive_in_time(struct cluster *cluster, struct redis *redis)
{
    int timeout_ms = cluster->timeout_ms;
    redis_set_timeout(redis, share_ms(cluster));
    redisReply *reply = redis_receive(redis);
    redis_set_timeout(redis, timeout_ms);
    return reply;
}

/* Does not wait for a reply that is still to come, because its time is over. */
struct redisReply *cluster_receive_late(struct redis *node)
{
    redisReply *reply;
    while (!(reply = redis_parsed(node)) && redis_fd(node) >= 0) {
        struct pollfd poller = {.fd = redis_fd(node), .events = POLLIN};
        if (poll(&poller, 1, LATE_MS) > 0) {
            redis_fill(node);
            continue;
        }
        redis_set_error(node, "no reply in time");
        redis_drop(node);
    }
    return reply;
}

void cluster_begin(struct cluster *cluster)
{
    cluster->until_ms = clock_now_ms() + cluster->timeout_ms;
}

struct redis *cluster_node(struct cluster *cluster, int node, const char *doing)
{
    struct redis *redis = node == CLUSTER_NO_NODE ? NULL : cluster_client(cluster, node);
    if (redis && connect_in_time(cluster, redis))
        return redis;
    cluster_doubt(cluster);
    if (node == CLUSTER_NO_NODE)
        cluster_note(cluster, node, doing, "no node of the cluster serves the slot");
    else if (redis)
        cluster_note(cluster, node, doing, redis_error(redis));
    else
        cluster_note(cluster, CLUSTER_NO_NODE, doing, "out of memory");
    return NULL;
}

/* ---- learning ---- */

void cluster_doubt(struct cluster *cluster)
{
    cluster->stale = true;
}

/* Writes the address of the server at the other end, for a node that does not know its own. With
 * TLS it is the name in the certificate; without TLS it is not, because a name may lead to any of
 * several servers. */
static bool peer_of(const struct cluster *cluster, const struct redis *redis, char *host_out,
                    size_t size)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    struct sockaddr *peer = (struct sockaddr *)&address;
    if (cluster->url.tls) {
        snprintf(host_out, size, "%s", redis_host(redis));
        return true;
    }
    return getpeername(redis_fd(redis), peer, &length) == 0 &&
           getnameinfo(peer, length, host_out, (socklen_t)size, NULL, 0, NI_NUMERICHOST) == 0;
}

static const char *no_slots(const struct cluster *cluster, const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ERROR)
        return "it serves no slots";
    if (!strstr(reply->str, "cluster support disabled"))
        return reply->str;
    return cluster->url.tls ? "it is no node of a Redis Cluster: the URL begins with rediss"
                            : "it is no node of a Redis Cluster: the URL begins with redis";
}

static bool learn_from(struct cluster *cluster, struct redis *redis)
{
    static const char *const ask[] = {"CLUSTER", "SLOTS"};
    char peer[URL_PART_SIZE];
    if (!connect_in_time(cluster, redis) || !peer_of(cluster, redis, peer, sizeof peer) ||
        !redis_append(redis, 2, ask, NULL))
        return false;
    redis_set_doing(redis, "CLUSTER SLOTS");
    redisReply *reply = receive_in_time(cluster, redis);
    bool learnt = reply && cluster_map_learn(&cluster->map, reply, peer);
    if (reply && !learnt)
        redis_set_error(redis, no_slots(cluster, reply));
    freeReplyObject(reply);
    return learnt;
}

/* Asks the connected nodes first, as one of them is likely to answer at once; then the servers of
 * the URL. A node that hangs costs its share of the time, and its connection. */
static bool learn(struct cluster *cluster)
{
    int count = cluster->map.count; /* learning adds nodes */
    for (int i = 0; i < count; i++) {
        struct cluster_node *node =
            cluster->map.nodes[(cluster->turn + (unsigned)i) % (unsigned)count];
        if (!node->redis || !redis_connected(node->redis) || !learn_from(cluster, node->redis))
            continue;
        cluster->turn++;
        return true;
    }
    if (learn_from(cluster, cluster->seed))
        return true;
    redis_drop(cluster->seed); /* the next try leads to another server */
    return false;
}

bool cluster_learn(struct cluster *cluster, bool between)
{
    if (cluster->known && !cluster->stale) {
        backoff_reset(&cluster->learn_backoff);
        return true;
    }
    if (!backoff_over(&cluster->learn_backoff, clock_now_ms()))
        return cluster->known;
    if (learn(cluster)) {
        cluster->known = true;
        cluster->stale = false;
        if (!between) {
            cluster_map_prune(&cluster->map);
            cluster->watch.node = CLUSTER_NO_NODE; /* the indices of nodes have changed */
        }
    }
    backoff_fail(&cluster->learn_backoff, clock_now_ms());
    return cluster->known;
}

/* ---- the client as its callers see it ---- */

static struct cluster *cluster_open(struct redis *seed, const struct url *url, int timeout_ms)
{
    assert(timeout_ms > 0);
    struct cluster *cluster = calloc(1, sizeof *cluster);
    if (!cluster)
        return NULL;
    cluster->seed = seed;
    cluster->url = *url;
    cluster->timeout_ms = timeout_ms;
    cluster->watch.slot = CLUSTER_NO_NODE;
    cluster_map_begin(&cluster->map);
    unsigned random = (unsigned)clock_now_ms() ^ (unsigned)(uintptr_t)cluster;
    backoff_init(&cluster->learn_backoff, CLUSTER_LEARN_MS_MIN, CLUSTER_LEARN_MS_MAX, random);
    cluster->turn = random % CLUSTER_NODES_MAX;
    return cluster;
}

static void cluster_close(struct cluster **cluster)
{
    if (*cluster) {
        cluster_map_clear(&(*cluster)->map);
        free((*cluster)->entries);
    }
    free(*cluster);
    *cluster = NULL;
}

static void cluster_drop(struct cluster *cluster)
{
    for (int i = 0; i < cluster->map.count; i++)
        if (cluster->map.nodes[i]->redis)
            redis_drop(cluster->map.nodes[i]->redis);
}

static void cluster_set_timeout(struct cluster *cluster, int timeout_ms)
{
    assert(timeout_ms > 0);
    cluster->timeout_ms = timeout_ms;
    for (int i = 0; i < cluster->map.count; i++)
        if (cluster->map.nodes[i]->redis)
            redis_set_timeout(cluster->map.nodes[i]->redis, timeout_ms);
}

void cluster_set_patience(struct cluster *cluster, int patience_ms)
{
    assert(patience_ms > 0);
    cluster->patience_ms = patience_ms;
}

static void cluster_add_stats(const struct cluster *cluster, struct redis_stats *stats)
{
    for (int i = 0; i < cluster->map.count; i++) {
        if (!cluster->map.nodes[i]->redis)
            continue;
        struct redis_stats node = redis_stats(cluster->map.nodes[i]->redis);
        stats->connects += node.connects;
        stats->failures += node.failures;
    }
}

static bool cluster_reached(const struct cluster *cluster)
{
    for (int i = 0; i < cluster->map.count && !cluster->reached; i++)
        if (cluster->map.nodes[i]->redis && redis_connected(cluster->map.nodes[i]->redis))
            return true;
    return cluster->reached;
}

static bool cluster_moving(const struct cluster *cluster)
{
    return cluster->moving;
}

/* ---- each master ---- */

static int nth_master(const struct cluster *cluster, size_t master)
{
    for (int i = 0; i < cluster->map.count; i++)
        if (cluster->map.nodes[i]->master && master-- == 0)
            return i;
    assert(!"no such master");
    return 0;
}

size_t cluster_masters(struct cluster *cluster)
{
    cluster_begin(cluster);
    if (!cluster_learn(cluster, false))
        return 0;
    size_t count = 0;
    for (int i = 0; i < cluster->map.count; i++) {
        if (cluster->map.nodes[i]->master && !cluster_client(cluster, i))
            abort();
        count += cluster->map.nodes[i]->master;
    }
    return count;
}

struct redis *cluster_master(struct cluster *cluster, size_t master)
{
    return cluster_client(cluster, nth_master(cluster, master));
}

/* Tries numbers in braces in turn until one hashes to the master: on average as many as there are
 * masters. A master with few slots may take thousands. */
void cluster_master_key(const struct cluster *cluster, size_t master, const char *prefix,
                        char key_out[CLUSTER_KEY_SIZE])
{
    int node = nth_master(cluster, master);
    for (unsigned i = 0; i < 1000000; i++) {
        int length = snprintf(key_out, CLUSTER_KEY_SIZE, "%s{%u}", prefix, i);
        assert(length > 0 && length < CLUSTER_KEY_SIZE);
        if (cluster->map.owner[cluster_slot(key_out, (size_t)length)] == node)
            return;
    }
}

bool cluster_owner(const struct cluster *cluster, const char *key, struct url_server *owner_out)
{
    int owner = cluster->map.owner[cluster_slot(key, strlen(key))];
    if (owner == CLUSTER_NO_NODE)
        return false;
    owner_out->port = cluster->map.nodes[owner]->port;
    snprintf(owner_out->host, sizeof owner_out->host, "%s", cluster->map.nodes[owner]->host);
    return true;
}

const struct cluster_hooks cluster_hooks = {
    .open = cluster_open,
    .close = cluster_close,
    .drop = cluster_drop,
    .set_timeout = cluster_set_timeout,
    .ping = cluster_ping,
    .add_stats = cluster_add_stats,
    .run_scripts = cluster_run_scripts,
    .run_commands = cluster_run_commands,
    .reached = cluster_reached,
    .moving = cluster_moving,
};

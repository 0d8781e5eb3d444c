/* The client of a Redis Cluster beside its front: the slots, and a connection to each node.
 *
 * why_learn: the slots are learnt from any server at the first use, and again when something shows
 * a change: MOVED, a lost node, CLUSTERDOWN. Any node may know less than others, and the one that
 * is asked may be cut off, so each question goes to the next node that answers; a wrong answer
 * costs one MOVED. A delay between two questions bounds them while a cluster changes for long, as
 * in a resharding, or stays down. */
#include "lua/cluster.h"

#include <arpa/inet.h>
#include <assert.h>
#include <hiredis/hiredis.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "lua/cluster_core.h"
#include "lua/cluster_hooks.h"

/* Short, because a replica that takes over is found only by asking. */
#define LEARN_MS_MIN 20
#define LEARN_MS_MAX 250

static struct cluster *cluster_open(struct redis *front, const struct url *url, int timeout_ms)
{
    assert(timeout_ms > 0);
    struct cluster *cluster = calloc(1, sizeof *cluster);
    if (!cluster)
        return NULL;
    cluster->front = front;
    cluster->url = *url;
    cluster->timeout_ms = timeout_ms;
    cluster->asked_slot = -1;
    cluster_map_begin(&cluster->map);
    unsigned seed = (unsigned)clock_now_ms() ^ (unsigned)(uintptr_t)cluster;
    backoff_init(&cluster->asking, LEARN_MS_MIN, LEARN_MS_MAX, seed);
    cluster->turn = seed % CLUSTER_NODES_MAX;
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
        stats->reloads += node.reloads;
    }
}

bool cluster_reached(const struct cluster *cluster)
{
    for (int i = 0; i < cluster->map.count && !cluster->reached; i++)
        if (cluster->map.nodes[i]->redis && redis_connected(cluster->map.nodes[i]->redis))
            return true;
    return cluster->reached;
}

bool cluster_moving(const struct cluster *cluster)
{
    return cluster->moving;
}

/* ---- the nodes ---- */

/* With the place before the text: a refusal of one node is none of the front's server. */
void cluster_note(struct cluster *cluster, int node, const char *doing, const char *error)
{
    char text[URL_PART_SIZE + 256];
    if (node == CLUSTER_NOBODY)
        snprintf(text, sizeof text, "%s", error);
    else
        snprintf(text, sizeof text, "%s: %s", redis_place(cluster->map.nodes[node]->redis), error);
    redis_set_doing(cluster->front, doing);
    redis_set_error(cluster->front, text);
}

static struct redis *client_of(struct cluster *cluster, int place)
{
    struct cluster_node *node = cluster->map.nodes[place];
    if (!node->redis)
        node->redis = redis_open_server(&cluster->url, node->host, node->port, cluster->timeout_ms);
    return node->redis;
}

struct redis *cluster_node(struct cluster *cluster, int node, const char *doing)
{
    struct redis *redis = node == CLUSTER_NOBODY ? NULL : client_of(cluster, node);
    if (redis && redis_connect(redis) == REDIS_ANSWERED)
        return redis;
    cluster_doubt(cluster);
    if (node == CLUSTER_NOBODY)
        cluster_note(cluster, node, doing, "no node of the cluster serves the slot");
    else if (redis)
        cluster_note(cluster, node, doing, redis_error(redis));
    else
        cluster_note(cluster, CLUSTER_NOBODY, doing, "out of memory");
    return NULL;
}

int cluster_target(struct cluster *cluster, int from, const struct cluster_redirect *redirect)
{
    const char *host = redirect->host;
    if (host[0] == '\0')
        host = cluster->map.nodes[from]->host;
    return cluster_map_node(&cluster->map, host, redirect->port);
}

/* ---- learning ---- */

void cluster_doubt(struct cluster *cluster)
{
    cluster->stale = true;
}

/* The address of the server at the other end, for a node that does not know its own. */
static bool peer_of(const struct redis *redis, char *host_out, size_t size)
{
    struct sockaddr_storage address;
    socklen_t length = sizeof address;
    struct sockaddr *peer = (struct sockaddr *)&address;
    return getpeername(redis_fd(redis), peer, &length) == 0 &&
           getnameinfo(peer, length, host_out, (socklen_t)size, NULL, 0, NI_NUMERICHOST) == 0;
}

static bool learn_from(struct cluster *cluster, struct redis *redis)
{
    static const char *const ask[] = {"CLUSTER", "SLOTS"};
    char peer[URL_PART_SIZE];
    if (redis_connect(redis) != REDIS_ANSWERED || !peer_of(redis, peer, sizeof peer) ||
        !redis_append(redis, 2, ask, NULL))
        return false;
    redis_set_doing(redis, "CLUSTER SLOTS");
    redisReply *reply = redis_receive(redis);
    bool learnt = reply && cluster_map_learn(&cluster->map, reply, peer);
    if (reply && !learnt)
        redis_set_error(redis,
                        reply->type == REDIS_REPLY_ERROR ? reply->str : "it serves no slots");
    freeReplyObject(reply);
    return learnt;
}

/* Nodes that are connected come first, as one of them is likely to answer at once; then the servers
 * of the URL. A node that hangs costs one time-out, and is not connected any more after it. */
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
    if (learn_from(cluster, cluster->front))
        return true;
    redis_drop(cluster->front); /* the next try leads to another server */
    return false;
}

bool cluster_learn(struct cluster *cluster, bool between)
{
    if (cluster->known && !cluster->stale) {
        backoff_reset(&cluster->asking);
        return true;
    }
    if (!backoff_over(&cluster->asking, clock_now_ms()))
        return cluster->known;
    if (learn(cluster)) {
        cluster->known = true;
        cluster->stale = false;
        if (!between) {
            cluster_map_prune(&cluster->map);
            cluster->asked_slot = -1;
        }
    }
    backoff_fail(&cluster->asking, clock_now_ms());
    return cluster->known;
}

int cluster_any(struct cluster *cluster)
{
    for (int i = 0; i < cluster->map.count; i++) {
        const struct cluster_node *node = cluster->map.nodes[i];
        if (node->master && node->redis && redis_connected(node->redis))
            return i;
    }
    for (int i = 0; i < cluster->map.count; i++)
        if (cluster->map.nodes[i]->master)
            return i;
    return CLUSTER_NOBODY;
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
    size_t count = 0;
    if (!cluster_learn(cluster, false))
        return 0;
    for (int i = 0; i < cluster->map.count; i++)
        count += cluster->map.nodes[i]->master && client_of(cluster, i);
    return count;
}

const char *cluster_master_place(const struct cluster *cluster, size_t master)
{
    return redis_place(cluster->map.nodes[nth_master(cluster, master)]->redis);
}

struct redis *cluster_master(struct cluster *cluster, size_t master)
{
    return client_of(cluster, nth_master(cluster, master));
}

/* A number in braces is tried after another until one hashes to the master: as many as there are
 * masters, on the average. A master that has few slots may take thousands. */
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

/* All are asked before any answer is awaited. */
static enum redis_result cluster_ping(struct cluster *cluster)
{
    static const char *const ping[] = {"PING"};
    enum redis_result result = REDIS_FAILED;
    if (!cluster_learn(cluster, false))
        return REDIS_FAILED;
    for (int i = 0; i < cluster->map.count; i++) {
        struct redis *redis =
            cluster->map.nodes[i]->master ? cluster_node(cluster, i, "PING") : NULL;
        cluster->map.nodes[i]->used =
            redis && redis_append(redis, 1, ping, NULL) && redis_flush(redis);
    }
    for (int i = 0; i < cluster->map.count; i++) {
        if (!cluster->map.nodes[i]->used)
            continue;
        cluster->map.nodes[i]->used = false;
        redisReply *reply = redis_receive(cluster->map.nodes[i]->redis);
        if (reply && reply->type != REDIS_REPLY_ERROR)
            result = REDIS_ANSWERED;
        else
            cluster_note(cluster, i, "PING",
                         reply ? reply->str : redis_error(cluster->map.nodes[i]->redis));
        if (!reply)
            cluster_doubt(cluster);
        freeReplyObject(reply);
    }
    return result;
}

const struct cluster_hooks cluster_hooks = {
    .open = cluster_open,
    .close = cluster_close,
    .drop = cluster_drop,
    .set_timeout = cluster_set_timeout,
    .ping = cluster_ping,
    .add_stats = cluster_add_stats,
};

/* The inside of a cluster's client: what it knows of the slots, and a connection to each node.
 *
 * why_learn: the slots are learnt from any server at the first use, and again when something shows
 * a change: MOVED, a lost node, CLUSTERDOWN. Any node may know less than others, and the one that
 * is asked may be cut off, so each question goes to the next node that answers; a wrong answer
 * costs one MOVED. A delay between two questions bounds them while a cluster changes for long, as
 * in a resharding, or stays down. */
#include "lua/cluster_core.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <netdb.h>
#include <stdio.h>
#include <sys/socket.h>

#include "base/clock.h"

enum {
    FREE_ROUNDS = 3, /* that follow refusals at once; then nodes contradict each other */
    PAUSE_MS_MAX = 8,
};

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

struct redis *cluster_client(struct cluster *cluster, int place)
{
    struct cluster_node *node = cluster->map.nodes[place];
    if (!node->redis)
        node->redis = redis_open_server(&cluster->url, node->host, node->port, cluster->timeout_ms);
    return node->redis;
}

struct redis *cluster_node(struct cluster *cluster, int node, const char *doing)
{
    struct redis *redis = node == CLUSTER_NOBODY ? NULL : cluster_client(cluster, node);
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

/* ---- patience ---- */

int64_t cluster_patience_end_ms(const struct cluster *cluster)
{
    int ms = cluster->patience_ms;
    if (ms == 0 || ms > cluster->timeout_ms)
        ms = cluster->timeout_ms;
    return clock_now_ms() + ms;
}

bool cluster_wait(bool early, int round, int64_t until_ms)
{
    int64_t left_ms = until_ms - clock_now_ms();
    if (left_ms <= 0)
        return false;
    if (early || round >= FREE_ROUNDS) {
        int64_t ms = round < FREE_ROUNDS ? INT64_C(1) << round : PAUSE_MS_MAX;
        clock_sleep_ns((ms < left_ms ? ms : left_ms) * CLOCK_NS_PER_MS);
    }
    return true;
}

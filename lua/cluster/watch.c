/* Commands to a cluster that belong to one connection: WATCH and what it reads, or MULTI to EXEC.
 *
 * why_together: a WATCH holds on one connection to one node, so what is read after it must come
 * from there. A refusal sends the whole group again. The group with MULTI is not sent again: its
 * WATCH is at the old node, so only its caller can begin anew. Redis drops the whole transaction
 * when it refuses one of its commands or the EXEC, so nothing of it is done.
 *
 * why_the_same_connection: an EXEC on any other one would succeed whoever has changed the keys
 * since the WATCH. So a transaction goes to the connection of its WATCH, even when the slot is
 * known to be elsewhere by now, and nowhere when that connection is gone. */
#include "lua/cluster/watch.h"

#include <hiredis/hiredis.h>
#include <string.h>

#include "lua/cluster/core.h"
#include "lua/command.h"

/* Where a group of commands goes, and which refusal came from there. */
struct aim {
    int node;
    bool asking; /* ASK has led here */
    enum cluster_refusal refusal;
    struct cluster_redirect redirect;
};

static bool has(const struct command *commands, size_t count, const char *word)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(commands[i].argv[0], word) == 0)
            return true;
    return false;
}

bool cluster_is_bound(const struct command *commands, size_t count)
{
    return has(commands, count, "WATCH") || has(commands, count, "MULTI");
}

bool cluster_is_watched(const struct cluster *cluster, const struct command *commands, size_t count)
{
    return cluster->watch.slot != CLUSTER_NOBODY && has(commands, count, "MULTI");
}

/* After ASK each command with a key wants an ASKING before it; the one before MULTI lasts until
 * EXEC. */
static bool wants_asking(const struct command *command, bool transaction)
{
    size_t length;
    if (transaction)
        return strcmp(command->argv[0], "MULTI") == 0;
    return command_key(command, &length) != NULL;
}

static void set_all(struct command *commands, size_t count, enum redis_result result)
{
    command_clear(commands, count);
    for (size_t i = 0; i < count; i++)
        commands[i].result = result;
}

static bool queue(struct redis *node, const struct command *commands, size_t count, bool asking,
                  bool transaction)
{
    static const char *const ask[] = {"ASKING"};
    for (size_t i = 0; i < count; i++) {
        bool first = asking && wants_asking(&commands[i], transaction);
        if ((first && !redis_append(node, 1, ask, NULL)) || !command_append(node, &commands[i]))
            return false;
    }
    return true;
}

/* Takes the reply to one command and keeps the first refusal by a slot that moves. */
static void receive(struct cluster *cluster, struct redis *node, struct command *command,
                    struct aim *aim)
{
    struct cluster_redirect redirect;
    redisReply *reply = redis_receive(node);
    bool error = reply && reply->type == REDIS_REPLY_ERROR;
    enum cluster_refusal refusal =
        error ? cluster_refusal(reply->str, &redirect) : CLUSTER_NO_REFUSAL;
    if (refusal != CLUSTER_NO_REFUSAL && aim->refusal == CLUSTER_NO_REFUSAL) {
        aim->refusal = refusal;
        aim->redirect = redirect;
    }
    cluster->reached |= reply != NULL;
    redis_set_doing(node, command->argv[0]);
    command_take(node, command, reply);
    if (command->result != REDIS_ANSWERED) {
        cluster_note(cluster, aim->node, command->argv[0], redis_error(node));
        if (!redis_connected(node))
            cluster_doubt(cluster);
    }
}

static void run_once(struct cluster *cluster, struct command *commands, size_t count,
                     bool transaction, struct aim *aim)
{
    struct redis *node = cluster_node(cluster, aim->node, commands[0].argv[0]);
    aim->refusal = CLUSTER_NO_REFUSAL;
    set_all(commands, count, REDIS_FAILED);
    if (!node)
        return;
    if (!queue(node, commands, count, aim->asking, transaction)) {
        redis_drop(node); /* out of memory: nothing of it was sent */
        return;
    }
    for (size_t i = 0; i < count; i++) {
        if (aim->asking && wants_asking(&commands[i], transaction))
            freeReplyObject(redis_receive(node));
        receive(cluster, node, &commands[i], aim);
    }
}

/* Turns to where a refusal leads; false when it leads nowhere. */
static bool turn(struct cluster *cluster, unsigned slot, struct aim *aim)
{
    int to = CLUSTER_NOBODY;
    if (aim->refusal == CLUSTER_MOVED || aim->refusal == CLUSTER_ASK)
        to = cluster_target(cluster, aim->node, &aim->redirect);
    if (aim->refusal == CLUSTER_TRY_AGAIN)
        to = cluster->map.owner[slot];
    if (aim->refusal != CLUSTER_NO_REFUSAL && aim->refusal != CLUSTER_ASK)
        cluster_doubt(cluster);
    if (aim->refusal == CLUSTER_MOVED && to != CLUSTER_NOBODY) {
        cluster->map.nodes[to]->master = true;
        cluster->map.owner[slot] = (int16_t)to;
    }
    aim->asking = aim->refusal == CLUSTER_ASK;
    aim->node = to;
    return to != CLUSTER_NOBODY;
}

static void keep_watch(struct cluster *cluster, unsigned slot, const struct aim *aim)
{
    cluster->watch = (struct cluster_watch){
        .slot = (int)slot,
        .node = aim->node,
        .asking = aim->asking,
        .connects = redis_stats(cluster->map.nodes[aim->node]->redis).connects,
    };
}

/* False when the WATCH is in force no more. */
static bool aim_at_watch(const struct cluster *cluster, const struct cluster_watch *watch,
                         struct aim *aim)
{
    const struct redis *node =
        watch->node == CLUSTER_NOBODY ? NULL : cluster->map.nodes[watch->node]->redis;
    aim->node = watch->node;
    aim->asking = watch->asking;
    return node && redis_connected(node) && redis_stats(node).connects == watch->connects;
}

void cluster_run_bound(struct cluster *cluster, struct command *commands, size_t count,
                       unsigned slot)
{
    bool transaction = has(commands, count, "MULTI");
    struct aim aim = {.node = cluster->map.owner[slot]};
    int64_t until_ms = cluster_patience_end_ms(cluster);
    struct cluster_watch watch = cluster->watch;
    cluster->watch.slot = CLUSTER_NOBODY;
    if (transaction && watch.slot == (int)slot && !aim_at_watch(cluster, &watch, &aim)) {
        cluster_note(cluster, CLUSTER_NOBODY, "MULTI", "the connection of the WATCH is lost");
        cluster_doubt(cluster);
        cluster->moving = true;
        return;
    }
    for (int round = 0;; round++) {
        run_once(cluster, commands, count, transaction, &aim);
        if (aim.refusal == CLUSTER_NO_REFUSAL)
            break;
        bool early = aim.refusal == CLUSTER_TRY_AGAIN;
        bool leads = turn(cluster, slot, &aim);
        if (!leads || transaction || !cluster_wait(early, round, until_ms)) {
            set_all(commands, count, REDIS_FAILED);
            cluster->moving = leads;
            return;
        }
        cluster_learn(cluster, true);
        if (!aim.asking)
            aim.node = cluster->map.owner[slot];
    }
    if (!transaction && commands[count - 1].result == REDIS_ANSWERED)
        keep_watch(cluster, slot, &aim);
}

/* Runs pipelines on a cluster: splits them by node, and sends to all nodes before it reads a reply.
 *
 *   calls ─► slot of each ─► rounds: send to the nodes ─► read all replies ─► refused? next round
 *
 * why_again: MOVED, ASK, TRYAGAIN and NOSCRIPT say that the node has not run the call, so sending
 * it again repeats nothing. Nothing else is ever sent again: a call whose node was lost is
 * REDIS_UNKNOWN, and any other refusal is REDIS_FAILED, for the caller to judge.
 *
 * why_order: the calls of one slot reach one node in one pipeline, so they run in their order, and
 * MOVED refuses all of them from some point on: in the next round they run in that order at the new
 * node. While a slot is on its way the node decides by the keys, and may refuse a call and run a
 * later one of the slot, as it may after NOSCRIPT: callers must bear that, see script_run. The
 * scripts do, because each checks the token of its lock: a take whose lock was refused
 * takes nothing; the release of a lock that was not taken releases nothing; a settle that was
 * refused leaves the lock held, so that the next lock of that segment is refused as busy. When a
 * fence is raised too late, the ledger refuses the lower one and the segment is recovered again.
 *
 * why_bound: a WATCH holds on one connection to one node, so later reads must come from there, and
 * a refusal sends the whole group again. The group with MULTI is not sent again: its WATCH is at
 * the old node, so only its caller can begin again. Redis drops the whole transaction when it
 * refuses one of its commands or the EXEC, so nothing of it is done. An EXEC on another connection
 * would succeed whoever has changed the keys since the WATCH. So a transaction goes to the
 * connection of its WATCH, even when the slot is known to be elsewhere by now, and fails when that
 * connection is lost. */
#include "lua/cluster/cluster.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lua/cluster/core.h"
#include "lua/command.h"
#include "lua/script.h"

enum {
    FREE_ROUNDS =
        3, /* rounds that follow refusals at once; after more, nodes contradict each other */
    PAUSE_MS_MAX = 8,
};

enum entry_state { ENTRY_SEND, ENTRY_SENT, ENTRY_DONE };

/* A group of commands that belong to one connection: see why_bound. */
struct group {
    bool bound;       /* the pipeline is such a group */
    bool transaction; /* with MULTI */
    bool led;         /* ASK or the WATCH leads it to `node`, whatever the map says */
    bool asking;      /* ASK leads it: the node wants an ASKING */
    bool refused;     /* in the present round, because the slot moves */
    int node;         /* also the node that the refusal names; CLUSTER_NO_NODE: no node */
};

/* A pipeline of script calls or of commands. */
struct pipeline {
    struct cluster *cluster;
    size_t count;
    struct script_call *scripts; /* either these */
    struct command *commands;    /* or these */
    int64_t sent_ms;             /* of the present round */
    bool late;                   /* a node has used up the time-out in this round */
    bool wait;                   /* a refusal says that it is too early for another try */
    struct group group;
};

static const char *doing(const struct pipeline *pipeline, size_t i)
{
    return pipeline->scripts ? script_name(&pipeline->scripts[i]) : pipeline->commands[i].argv[0];
}

static bool append(const struct pipeline *pipeline, struct redis *node, size_t i, bool text)
{
    if (pipeline->commands)
        return command_append(node, &pipeline->commands[i]);
    const struct script_call *call = &pipeline->scripts[i];
    return script_append(node, call, 1, redis_first_use(node, call->id) || text);
}

/* Sets a result without an answer. */
static void forget(const struct pipeline *pipeline, size_t i, enum redis_result result)
{
    pipeline->cluster->entries[i].state = ENTRY_DONE;
    if (pipeline->scripts)
        script_forget(&pipeline->scripts[i], result);
    else
        pipeline->commands[i].result = result;
}

static void take(const struct pipeline *pipeline, struct redis *node, size_t i, redisReply *reply)
{
    pipeline->cluster->entries[i].state = ENTRY_DONE;
    redis_set_doing(node, doing(pipeline, i));
    if (pipeline->scripts) {
        script_take(node, &pipeline->scripts[i], reply);
        freeReplyObject(reply);
    } else
        command_take(node, &pipeline->commands[i], reply);
}

/* ---- one round: sending ---- */

static bool ask_before(struct redis *node)
{
    static const char *const asking[] = {"ASKING"};
    return redis_append(node, 1, asking, NULL);
}

/* Does not connect again in this round to a node that was dropped in it: earlier calls would take
 * the replies of later calls for their own. */
static struct redis *usable(struct pipeline *pipeline, int index, const char *what)
{
    struct cluster *cluster = pipeline->cluster;
    const struct cluster_node *node = index == CLUSTER_NO_NODE ? NULL : cluster->map.nodes[index];
    if (node && node->used && !redis_connected(node->redis))
        return NULL;
    return cluster_node(cluster, index, what);
}

/* After ASK each command with a key wants an ASKING; one before MULTI lasts until EXEC. */
static bool wants_asking(const struct pipeline *pipeline, size_t i)
{
    const struct command *command = &pipeline->commands[i];
    size_t length;
    if (pipeline->group.transaction)
        return strcmp(command->argv[0], "MULTI") == 0;
    return command_key(command, &length) != NULL;
}

static void aim(struct pipeline *pipeline, size_t i)
{
    struct cluster_entry *entry = &pipeline->cluster->entries[i];
    const struct group *group = &pipeline->group;
    if (group->bound)
        entry->asking = group->asking && wants_asking(pipeline, i);
    if (group->led)
        entry->node = (int16_t)group->node;
    else if (!entry->asking && !entry->text)
        entry->node = pipeline->cluster->map.owner[entry->slot];
}

static void send_entry(struct pipeline *pipeline, size_t i)
{
    struct cluster *cluster = pipeline->cluster;
    struct cluster_entry *entry = &cluster->entries[i];
    aim(pipeline, i);
    struct redis *node = usable(pipeline, entry->node, doing(pipeline, i));
    if (!node) {
        forget(pipeline, i, REDIS_FAILED);
        return;
    }
    cluster->map.nodes[entry->node]->used = true;
    bool asked = !entry->asking || ask_before(node);
    if (asked && append(pipeline, node, i, entry->text)) {
        entry->state = ENTRY_SENT;
        return;
    }
    /* Out of memory. What is queued must not be sent with an ASKING that nothing follows. */
    redis_drop(node);
    forget(pipeline, i, REDIS_FAILED);
}

static void send_round(struct pipeline *pipeline)
{
    struct cluster *cluster = pipeline->cluster;
    for (size_t i = 0; i < pipeline->count; i++)
        if (cluster->entries[i].state == ENTRY_SEND)
            send_entry(pipeline, i);
    for (int i = 0; i < cluster->map.count; i++)
        if (cluster->map.nodes[i]->used) {
            cluster->map.nodes[i]->used = false;
            /* The result does not matter here: a node that is lost now may have received a part,
             * and gives no replies. */
            redis_flush(cluster->map.nodes[i]->redis);
        }
    pipeline->sent_ms = clock_now_ms();
    pipeline->late = pipeline->wait = pipeline->group.refused = false;
}

/* ---- one round: replies ---- */

/* After one node has used up the time-out, replies that the others have not sent by now are late as
 * well: all nodes have had the same time. */
static redisReply *receive(struct pipeline *pipeline, struct redis *node)
{
    if (pipeline->late)
        return cluster_receive_late(node);
    redisReply *reply = redis_receive(node);
    if (!reply && clock_now_ms() - pipeline->sent_ms >= pipeline->cluster->timeout_ms)
        pipeline->late = true;
    return reply;
}

/* Sends a refused call again in the next round. The script that it carried was not loaded, so the
 * node gets its text with the next use. */
static void again(struct pipeline *pipeline, size_t i, bool asking, int node)
{
    struct cluster_entry *entry = &pipeline->cluster->entries[i];
    redis_forget_scripts(pipeline->cluster->map.nodes[entry->node]->redis);
    entry->state = ENTRY_SEND;
    entry->asking = asking;
    entry->text = false;
    entry->node = (int16_t)node;
}

/* Returns the node that a refusal names, and notes the change; CLUSTER_NO_NODE: no node. */
static int lead(struct pipeline *pipeline, int from, enum cluster_refusal why,
                const struct cluster_redirect *redirect)
{
    struct cluster *cluster = pipeline->cluster;
    int to = CLUSTER_NO_NODE;
    if (why == CLUSTER_MOVED || why == CLUSTER_ASK)
        to = cluster_map_follow(&cluster->map, from, why, redirect);
    if (why == CLUSTER_TRY_AGAIN) {
        /* Begins with the node that has the slot: meanwhile the keys may be back together. */
        pipeline->wait = true;
        to = from;
    }
    if (why != CLUSTER_ASK || to == CLUSTER_NO_NODE)
        cluster_doubt(cluster);
    return to;
}

/* Carries out a refusal; false when it makes the call fail. The first refusal of a bound group
 * counts, and the end of the round carries it out. */
static bool follow(struct pipeline *pipeline, size_t i, const char *error)
{
    struct cluster *cluster = pipeline->cluster;
    struct cluster_redirect redirect;
    struct group *group = &pipeline->group;
    enum cluster_refusal why = cluster_refusal(error, &redirect);
    if (why == CLUSTER_NO_REFUSAL)
        return false;
    if (group->bound && group->refused)
        return true;
    int to = lead(pipeline, cluster->entries[i].node, why, &redirect);
    if (!group->bound && to == CLUSTER_NO_NODE)
        return false;
    if (!group->bound) {
        again(pipeline, i, why == CLUSTER_ASK, to);
        return true;
    }
    if (to == CLUSTER_NO_NODE)
        cluster_note(cluster, cluster->entries[i].node, doing(pipeline, i), error);
    group->refused = true;
    group->asking = group->led = why == CLUSTER_ASK;
    group->node = to;
    return true;
}

static void receive_entry(struct pipeline *pipeline, size_t i)
{
    struct cluster *cluster = pipeline->cluster;
    struct cluster_entry *entry = &cluster->entries[i];
    struct redis *node = cluster->map.nodes[entry->node]->redis;
    if (entry->asking)
        freeReplyObject(receive(pipeline, node));
    redisReply *reply = receive(pipeline, node);
    if (!reply) {
        cluster_doubt(cluster);
        cluster_note(cluster, entry->node, doing(pipeline, i), redis_error(node));
        forget(pipeline, i, REDIS_UNKNOWN);
        return;
    }
    cluster->reached = true;
    bool error = reply->type == REDIS_REPLY_ERROR;
    if (error && pipeline->scripts && !entry->text && strncmp(reply->str, "NOSCRIPT", 8) == 0) {
        entry->state = ENTRY_SEND;
        entry->text = true;
        freeReplyObject(reply);
    } else if (error && follow(pipeline, i, reply->str)) {
        freeReplyObject(reply);
    } else {
        take(pipeline, node, i, reply);
        /* A node that takes no writes is left: perhaps another has its slots by now. */
        if (error)
            cluster_note(cluster, entry->node, doing(pipeline, i), redis_error(node));
        if (!redis_connected(node))
            cluster_doubt(cluster);
    }
}

/* Returns the number of calls to send again. */
static size_t receive_round(struct pipeline *pipeline)
{
    struct cluster_entry *entries = pipeline->cluster->entries;
    size_t left = 0;
    for (size_t i = 0; i < pipeline->count; i++) {
        if (entries[i].state == ENTRY_SENT)
            receive_entry(pipeline, i);
    }
    for (size_t i = 0; i < pipeline->count; i++) {
        if (pipeline->group.refused) {
            command_clear(&pipeline->commands[i], 1);
            entries[i].state = ENTRY_SEND;
        }
        left += entries[i].state == ENTRY_SEND;
    }
    return left;
}

/* ---- all rounds ---- */

static void give_up(struct pipeline *pipeline)
{
    struct cluster *cluster = pipeline->cluster;
    bool moving = !pipeline->group.refused || pipeline->group.node != CLUSTER_NO_NODE;
    for (size_t i = 0; i < pipeline->count; i++) {
        if (cluster->entries[i].state != ENTRY_SEND)
            continue;
        if (moving)
            cluster_note(cluster, cluster->entries[i].node, doing(pipeline, i),
                         "the slot is being moved");
        forget(pipeline, i, REDIS_FAILED);
        cluster->moving = moving;
    }
}

/* Waits a moment before the next round, counted from 0, if the nodes say that it is too early or
 * there were many; false when the patience has ended. */
static bool wait_for_round(const struct pipeline *pipeline, int round, int64_t until_ms)
{
    int64_t left_ms = until_ms - clock_now_ms();
    if (left_ms <= 0)
        return false;
    if (pipeline->wait || round >= FREE_ROUNDS) {
        int64_t ms = round < FREE_ROUNDS ? INT64_C(1) << round : PAUSE_MS_MAX;
        clock_sleep_ns((ms < left_ms ? ms : left_ms) * CLOCK_NS_PER_MS);
    }
    return true;
}

static void run(struct pipeline *pipeline)
{
    const struct cluster *cluster = pipeline->cluster;
    const struct group *group = &pipeline->group;
    int patience_ms = cluster->patience_ms;
    if (patience_ms == 0 || patience_ms > cluster->timeout_ms)
        patience_ms = cluster->timeout_ms;
    int64_t until_ms = clock_now_ms() + patience_ms;
    for (int round = 0;; round++) {
        send_round(pipeline);
        if (receive_round(pipeline) == 0)
            return;
        if (group->refused && (group->transaction || group->node == CLUSTER_NO_NODE))
            break;
        if (!wait_for_round(pipeline, round, until_ms))
            break;
        cluster_learn(pipeline->cluster, true);
    }
    give_up(pipeline);
}

/* Makes room for the entries; the array grows and never shrinks. */
static bool reserve(struct cluster *cluster, size_t count)
{
    if (count <= cluster->room)
        return true;
    struct cluster_entry *entries = realloc(cluster->entries, count * sizeof *entries);
    if (!entries)
        return false;
    cluster->entries = entries;
    cluster->room = count;
    return true;
}

/* True when there is a cluster to send to. */
static bool begin(struct cluster *cluster, size_t count, bool may_learn)
{
    cluster_begin(cluster);
    cluster->reached = count == 0;
    cluster->moving = false;
    if (!reserve(cluster, count)) {
        cluster_note(cluster, CLUSTER_NO_NODE, "send", "out of memory");
        return false;
    }
    memset(cluster->entries, 0, count * sizeof *cluster->entries);
    return may_learn ? cluster_learn(cluster, false) : cluster->known;
}

/* ---- scripts ---- */

static unsigned script_slot(const struct script_call *call)
{
    const char *key = call->more ? call->more[0] : call->text;
    assert(call->keys > 0);
    return cluster_slot(key, strlen(key));
}

void cluster_run_scripts(struct cluster *cluster, struct script_call *calls, size_t count)
{
    struct pipeline pipeline = {.cluster = cluster, .count = count, .scripts = calls};
    for (size_t i = 0; i < count; i++)
        script_forget(&calls[i], REDIS_FAILED);
    if (!begin(cluster, count, true))
        return;
    for (size_t i = 0; i < count; i++)
        cluster->entries[i].slot = (uint16_t)script_slot(&calls[i]);
    run(&pipeline);
}

/* ---- commands ---- */

/* Gives each command a slot: its own, or that of the first command with a key. */
static void set_slots(struct cluster *cluster, const struct command *commands, size_t count)
{
    bool found = false;
    unsigned common = 0;
    for (size_t i = 0; i < count; i++) {
        size_t length = 0;
        const char *key = command_key(&commands[i], &length);
        unsigned slot = key ? cluster_slot(key, length) : CLUSTER_SLOTS;
        cluster->entries[i].slot = (uint16_t)slot;
        if (key && !found)
            common = slot;
        found = found || key;
    }
    if (!found)
        common = cluster_map_any_slot(&cluster->map);
    for (size_t i = 0; i < count; i++)
        if (cluster->entries[i].slot == CLUSTER_SLOTS)
            cluster->entries[i].slot = (uint16_t)common;
}

static bool has(const struct pipeline *pipeline, const char *word)
{
    for (size_t i = 0; i < pipeline->count; i++)
        if (strcmp(pipeline->commands[i].argv[0], word) == 0)
            return true;
    return false;
}

/* Leads a transaction to the connection of its WATCH; false when that is lost. */
static bool lead_to_watch(struct pipeline *pipeline, const struct cluster_watch *watch)
{
    struct cluster *cluster = pipeline->cluster;
    const struct redis *node =
        watch->node == CLUSTER_NO_NODE ? NULL : cluster->map.nodes[watch->node]->redis;
    if (!node || !redis_connected(node) || redis_stats(node).connects != watch->connects) {
        cluster_note(cluster, CLUSTER_NO_NODE, "MULTI", "the connection of the WATCH is lost");
        cluster_doubt(cluster);
        cluster->moving = true;
        return false;
    }
    pipeline->group.led = true;
    pipeline->group.node = watch->node;
    pipeline->group.asking = watch->asking;
    return true;
}

static void run_bound(struct pipeline *pipeline)
{
    struct cluster *cluster = pipeline->cluster;
    const struct cluster_entry *last = &cluster->entries[pipeline->count - 1];
    const struct cluster_watch watch = cluster->watch;
    const struct group *group = &pipeline->group;
    cluster->watch.slot = CLUSTER_NO_NODE;
    if (group->transaction && watch.slot == last->slot && !lead_to_watch(pipeline, &watch))
        return;
    run(pipeline);
    if (!group->transaction && pipeline->commands[pipeline->count - 1].result == REDIS_ANSWERED)
        cluster->watch = (struct cluster_watch){
            .slot = last->slot,
            .node = last->node,
            .asking = group->asking,
            .connects = redis_stats(cluster->map.nodes[last->node]->redis).connects,
        };
}

void cluster_run_commands(struct cluster *cluster, struct command *commands, size_t count)
{
    struct pipeline pipeline = {.cluster = cluster, .count = count, .commands = commands};
    struct group *group = &pipeline.group;
    for (size_t i = 0; i < count; i++) {
        commands[i].result = REDIS_FAILED;
        commands[i].reply = NULL;
    }
    group->transaction = has(&pipeline, "MULTI");
    group->bound = group->transaction || has(&pipeline, "WATCH");
    /* Learns nothing before the transaction of a WATCH, which goes to the WATCH's connection. */
    bool watched = group->transaction && cluster->watch.slot != CLUSTER_NO_NODE;
    if (count == 0 || !begin(cluster, count, !watched))
        return;
    set_slots(cluster, commands, count);
    if (group->bound)
        run_bound(&pipeline);
    else
        run(&pipeline);
}

/* Sends one PING to each master, in a slot that it serves. */
enum redis_result cluster_ping(struct cluster *cluster)
{
    struct command pings[CLUSTER_NODES_MAX];
    bool seen[CLUSTER_NODES_MAX] = {false};
    struct pipeline pipeline = {.cluster = cluster, .commands = pings};
    enum redis_result result = REDIS_FAILED;
    if (!begin(cluster, CLUSTER_NODES_MAX, true))
        return REDIS_FAILED;
    for (unsigned slot = 0; slot < CLUSTER_SLOTS; slot++) {
        int owner = cluster->map.owner[slot];
        if (owner == CLUSTER_NO_NODE || seen[owner])
            continue;
        seen[owner] = true;
        cluster->entries[pipeline.count].slot = (uint16_t)slot;
        pings[pipeline.count++] = (struct command){.argc = 1, .argv = {"PING"}};
    }
    run(&pipeline);
    for (size_t i = 0; i < pipeline.count; i++)
        if (pings[i].result == REDIS_ANSWERED)
            result = REDIS_ANSWERED;
    command_clear(pings, pipeline.count);
    return result;
}

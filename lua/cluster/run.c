/* Pipelines to a cluster: split by node, sent to all nodes before any reply is read.
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
 * scripts do, because each checks the token of the lock beside it: a take whose lock was refused
 * takes nothing; the release of a lock that was not taken releases nothing; a settle that was
 * refused leaves the lock held, so that the next lock of that segment is refused as busy. When a
 * fence is raised too late, the ledger refuses the lower one and the segment is recovered again. */
#include "lua/cluster/run.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lua/cluster/core.h"
#include "lua/cluster/watch.h"
#include "lua/command.h"
#include "lua/script.h"

enum entry_state { ENTRY_SEND, ENTRY_SENT, ENTRY_DONE };

/* One pipeline of calls of whatever type. */
struct pipeline {
    struct cluster *cluster;
    size_t count;
    struct script_call *scripts; /* these, or */
    struct command *commands;    /* these */
    int64_t sent_ms;             /* of the present round */
    bool late;                   /* a node has used up the time-out in this round */
    bool wait;                   /* a refusal says that it is too early for another try */
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
    return script_append(node, call, redis_first_use(node, call->id) || text);
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
    if (pipeline->scripts)
        script_take(node, &pipeline->scripts[i], reply);
    else
        command_take(node, &pipeline->commands[i], reply);
}

/* ---- one round: sending ---- */

static bool ask_before(struct redis *node)
{
    static const char *const asking[] = {"ASKING"};
    return redis_append(node, 1, asking, NULL);
}

/* A node that was dropped in this round is not connected to again in it: calls that were queued
 * before would take the replies of later ones for their own. */
static struct redis *usable(struct pipeline *pipeline, int place, const char *what)
{
    struct cluster *cluster = pipeline->cluster;
    const struct cluster_node *node = place == CLUSTER_NOBODY ? NULL : cluster->map.nodes[place];
    if (node && node->used && !redis_connected(node->redis))
        return NULL;
    return cluster_node(cluster, place, what);
}

static void send_entry(struct pipeline *pipeline, size_t i)
{
    struct cluster *cluster = pipeline->cluster;
    struct cluster_entry *entry = &cluster->entries[i];
    if (!entry->asking && !entry->text)
        entry->node = cluster->map.owner[entry->slot];
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
            /* Whatever becomes of it: a node that is lost now may have got a part, and gives no
             * replies. */
            redis_flush(cluster->map.nodes[i]->redis);
        }
    pipeline->sent_ms = clock_now_ms();
    pipeline->late = pipeline->wait = false;
}

/* ---- one round: replies ---- */

/* After one node has used up the time-out, what the others have not sent by now is late as well:
 * all of them have had the same time. */
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

static void again_with_text(struct pipeline *pipeline, size_t i, struct redis *node)
{
    redis_count_reload(node);
    pipeline->cluster->entries[i].state = ENTRY_SEND;
    pipeline->cluster->entries[i].text = true;
}

/* Carries out a refusal; false when the call has failed by it. */
static bool follow(struct pipeline *pipeline, size_t i, const char *error)
{
    struct cluster *cluster = pipeline->cluster;
    struct cluster_redirect redirect;
    int from = cluster->entries[i].node, to = CLUSTER_NOBODY;
    enum cluster_refusal why = cluster_refusal(error, &redirect);
    if (why == CLUSTER_MOVED || why == CLUSTER_ASK)
        to = cluster_target(cluster, from, &redirect);
    if (why == CLUSTER_MOVED && to != CLUSTER_NOBODY) {
        cluster->map.nodes[to]->master = true;
        cluster->map.owner[redirect.slot] = (int16_t)to;
        cluster_doubt(cluster);
        again(pipeline, i, false, to);
    } else if (why == CLUSTER_ASK && to != CLUSTER_NOBODY) {
        again(pipeline, i, true, to);
    } else if (why == CLUSTER_TRY_AGAIN) {
        cluster_doubt(cluster);
        /* Beginning with the node that has the slot: meanwhile the keys may be back together. */
        pipeline->wait = true;
        again(pipeline, i, false, from);
    } else {
        if (why != CLUSTER_NO_REFUSAL)
            cluster_doubt(cluster);
        return false;
    }
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
        again_with_text(pipeline, i, node);
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

/* Returns how many calls are to be sent again. */
static size_t receive_round(struct pipeline *pipeline)
{
    size_t left = 0;
    for (size_t i = 0; i < pipeline->count; i++) {
        if (pipeline->cluster->entries[i].state == ENTRY_SENT)
            receive_entry(pipeline, i);
        left += pipeline->cluster->entries[i].state == ENTRY_SEND;
    }
    return left;
}

/* ---- all rounds ---- */

static void give_up(struct pipeline *pipeline)
{
    struct cluster *cluster = pipeline->cluster;
    for (size_t i = 0; i < pipeline->count; i++) {
        if (cluster->entries[i].state != ENTRY_SEND)
            continue;
        cluster_note(cluster, cluster->entries[i].node, doing(pipeline, i),
                     "the slot is being moved");
        forget(pipeline, i, REDIS_FAILED);
        cluster->moving = true;
    }
}

static void run(struct pipeline *pipeline)
{
    int64_t until_ms = cluster_patience_end_ms(pipeline->cluster);
    for (int round = 0;; round++) {
        send_round(pipeline);
        if (receive_round(pipeline) == 0)
            return;
        if (!cluster_wait(pipeline->wait, round, until_ms))
            break;
        cluster_learn(pipeline->cluster, true);
    }
    give_up(pipeline);
}

/* Room for the entries; the array grows and never shrinks. */
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
        cluster_note(cluster, CLUSTER_NOBODY, "send", "out of memory");
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

/* A slot of any node that answers, for commands without a key. */
static unsigned any_slot(struct cluster *cluster)
{
    int node = cluster_any(cluster);
    for (unsigned slot = 0; slot < CLUSTER_SLOTS; slot++)
        if (cluster->map.owner[slot] == node)
            return slot;
    return 0;
}

/* Gives each command a slot: its own, or that of the first one that has a key. */
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
        common = any_slot(cluster);
    for (size_t i = 0; i < count; i++)
        if (cluster->entries[i].slot == CLUSTER_SLOTS)
            cluster->entries[i].slot = (uint16_t)common;
}

void cluster_run_commands(struct cluster *cluster, struct command *commands, size_t count)
{
    struct pipeline pipeline = {.cluster = cluster, .count = count, .commands = commands};
    for (size_t i = 0; i < count; i++) {
        commands[i].result = REDIS_FAILED;
        commands[i].reply = NULL;
    }
    if (count == 0 || !begin(cluster, count, !cluster_is_watched(cluster, commands, count)))
        return;
    set_slots(cluster, commands, count);
    if (cluster_is_bound(commands, count))
        cluster_run_bound(cluster, commands, count, cluster->entries[0].slot);
    else
        run(&pipeline);
}

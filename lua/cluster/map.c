/* Which node of a cluster has which slot, and this client's connection to each node. */
#include "lua/cluster/map.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lua/redis.h"

static void forget_owners(struct cluster_map *map)
{
    for (int slot = 0; slot < CLUSTER_SLOTS; slot++)
        map->owner[slot] = CLUSTER_NOBODY;
}

void cluster_map_begin(struct cluster_map *map)
{
    map->count = 0;
    forget_owners(map);
}

static void free_node(struct cluster_node *node)
{
    if (node->redis)
        redis_close(&node->redis);
    free(node);
}

void cluster_map_clear(struct cluster_map *map)
{
    for (int i = 0; i < map->count; i++)
        free_node(map->nodes[i]);
    cluster_map_begin(map);
}

int cluster_map_node(struct cluster_map *map, const char *host, unsigned port)
{
    for (int i = 0; i < map->count; i++)
        if (map->nodes[i]->port == port && strcmp(map->nodes[i]->host, host) == 0)
            return i;
    struct cluster_node *node = map->count < CLUSTER_NODES_MAX ? calloc(1, sizeof *node) : NULL;
    if (!node)
        return CLUSTER_NOBODY;
    snprintf(node->host, sizeof node->host, "%s", host);
    node->port = port;
    map->nodes[map->count] = node;
    return map->count++;
}

/* ---- CLUSTER SLOTS: ranges, each "first slot, last slot, master, replicas…"; a node is "address,
 * port, id, …" ---- */

static const redisReply *element(const redisReply *reply, size_t i, int type)
{
    if (reply->type != REDIS_REPLY_ARRAY || i >= reply->elements || reply->element[i]->type != type)
        return NULL;
    return reply->element[i];
}

static bool sound_range(const redisReply *range)
{
    const redisReply *first = element(range, 0, REDIS_REPLY_INTEGER);
    const redisReply *last = element(range, 1, REDIS_REPLY_INTEGER);
    const redisReply *master = element(range, 2, REDIS_REPLY_ARRAY);
    const redisReply *port = master ? element(master, 1, REDIS_REPLY_INTEGER) : NULL;
    if (!first || !last || !port)
        return false;
    bool text = element(master, 0, REDIS_REPLY_STRING) || element(master, 0, REDIS_REPLY_NIL);
    return text && first->integer >= 0 && first->integer <= last->integer &&
           last->integer < CLUSTER_SLOTS && port->integer > 0 && port->integer <= 65535;
}

static bool sound(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements == 0)
        return false;
    for (size_t i = 0; i < reply->elements; i++)
        if (!sound_range(reply->element[i]))
            return false;
    return true;
}

/* The node's address among its further names and values, of Redis 7 and later. */
static const redisReply *address_of(const redisReply *node)
{
    const redisReply *more = element(node, 3, REDIS_REPLY_ARRAY);
    for (size_t i = 0; more && i + 1 < more->elements; i += 2) {
        const redisReply *name = element(more, i, REDIS_REPLY_STRING);
        if (name && strcmp(name->str, "ip") == 0)
            return element(more, i + 1, REDIS_REPLY_STRING);
    }
    return NULL;
}

/* A node that does not know its own address leaves it out: then it is the one that was asked. "?"
 * stands for a name that should be there and is not: then its address is taken. */
static int master_of(struct cluster_map *map, const redisReply *range, const char *asked)
{
    const redisReply *master = range->element[2];
    const redisReply *host = element(master, 0, REDIS_REPLY_STRING);
    if (host && strcmp(host->str, "?") == 0)
        host = address_of(master);
    return cluster_map_node(map, host && host->len > 0 ? host->str : asked,
                            (unsigned)master->element[1]->integer);
}

bool cluster_map_learn(struct cluster_map *map, const struct redisReply *reply, const char *asked)
{
    if (!sound(reply))
        return false;
    for (size_t i = 0; i < reply->elements; i++)
        if (master_of(map, reply->element[i], asked) == CLUSTER_NOBODY)
            return false;
    forget_owners(map);
    for (int i = 0; i < map->count; i++)
        map->nodes[i]->master = false;
    for (size_t i = 0; i < reply->elements; i++) {
        const redisReply *range = reply->element[i];
        int owner = master_of(map, range, asked);
        map->nodes[owner]->master = true;
        for (int64_t slot = range->element[0]->integer; slot <= range->element[1]->integer; slot++)
            map->owner[slot] = (int16_t)owner;
    }
    return true;
}

void cluster_map_prune(struct cluster_map *map)
{
    int places[CLUSTER_NODES_MAX], kept = 0;
    for (int i = 0; i < map->count; i++) {
        places[i] = map->nodes[i]->master ? kept : CLUSTER_NOBODY;
        if (map->nodes[i]->master)
            map->nodes[kept++] = map->nodes[i];
        else
            free_node(map->nodes[i]);
    }
    if (kept == map->count)
        return;
    map->count = kept;
    for (int slot = 0; slot < CLUSTER_SLOTS; slot++)
        if (map->owner[slot] != CLUSTER_NOBODY)
            map->owner[slot] = (int16_t)places[map->owner[slot]];
}

/* Maps the slots of a Redis Cluster: the slot of a key, the node that has a slot, the refusals that
 * name another node. */
#include "lua/cluster/map.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lua/redis.h"

/* ---- the slot of a key ---- */

/* CRC16 of the polynomial 0x1021 (XMODEM), four bits at a time. */
static uint16_t crc16(const char *bytes, size_t length)
{
    static const uint16_t table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5,
                                       0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b,
                                       0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    unsigned crc = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned byte = (unsigned char)bytes[i];
        crc = (crc << 4 & 0xffff) ^ table[crc >> 12 ^ byte >> 4];
        crc = (crc << 4 & 0xffff) ^ table[crc >> 12 ^ (byte & 15)];
    }
    return (uint16_t)crc;
}

unsigned cluster_slot(const char *key, size_t length)
{
    const char *open = memchr(key, '{', length);
    const char *close = open ? memchr(open, '}', length - (size_t)(open - key)) : NULL;
    if (close && close > open + 1)
        return crc16(open + 1, (size_t)(close - open) - 1) % CLUSTER_SLOTS;
    return crc16(key, length) % CLUSTER_SLOTS;
}

/* ---- refusals ---- */

static bool begins(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* Reads "SLOT HOST:PORT"; the host of an IPv6 address has colons of its own. */
static bool read_redirect(const char *text, struct cluster_redirect *redirect_out)
{
    char *end;
    unsigned long slot = strtoul(text, &end, 10);
    const char *colon = strrchr(text, ':');
    if (end == text || *end != ' ' || slot >= CLUSTER_SLOTS || !colon || colon < end + 1)
        return false;
    const char *host = end + 1;
    size_t length = (size_t)(colon - host);
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (length >= sizeof redirect_out->host || port == 0 || port > 65535 || *end != '\0')
        return false;
    redirect_out->slot = (unsigned)slot;
    memcpy(redirect_out->host, host, length);
    redirect_out->host[length] = '\0';
    redirect_out->port = (unsigned)port;
    return true;
}

static enum cluster_refusal redirected(const char *text, enum cluster_refusal refusal,
                                       struct cluster_redirect *redirect_out)
{
    if (!read_redirect(text, redirect_out))
        return CLUSTER_DOWN;
    return strcmp(redirect_out->host, "?") == 0 ? CLUSTER_TRY_AGAIN : refusal;
}

enum cluster_refusal cluster_refusal(const char *error, struct cluster_redirect *redirect_out)
{
    assert(error);
    *redirect_out = (struct cluster_redirect){.port = 0};
    if (begins(error, "MOVED "))
        return redirected(error + 6, CLUSTER_MOVED, redirect_out);
    if (begins(error, "ASK "))
        return redirected(error + 4, CLUSTER_ASK, redirect_out);
    if (begins(error, "TRYAGAIN"))
        return CLUSTER_TRY_AGAIN;
    return begins(error, "CLUSTERDOWN") ? CLUSTER_DOWN : CLUSTER_NO_REFUSAL;
}

/* ---- the nodes ---- */

static void forget_owners(struct cluster_map *map)
{
    for (int slot = 0; slot < CLUSTER_SLOTS; slot++)
        map->owner[slot] = CLUSTER_NO_NODE;
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
        return CLUSTER_NO_NODE;
    snprintf(node->host, sizeof node->host, "%s", host);
    node->port = port;
    map->nodes[map->count] = node;
    return map->count++;
}

int cluster_map_follow(struct cluster_map *map, int from, enum cluster_refusal why,
                       const struct cluster_redirect *redirect)
{
    const char *host = redirect->host[0] ? redirect->host : map->nodes[from]->host;
    int to = cluster_map_node(map, host, redirect->port);
    if (why == CLUSTER_MOVED && to != CLUSTER_NO_NODE) {
        map->nodes[to]->master = true;
        map->owner[redirect->slot] = (int16_t)to;
    }
    return to;
}

unsigned cluster_map_any_slot(const struct cluster_map *map)
{
    unsigned found = 0;
    for (unsigned slot = 0; slot < CLUSTER_SLOTS; slot++) {
        int owner = map->owner[slot];
        if (owner == CLUSTER_NO_NODE)
            continue;
        const struct redis *redis = map->nodes[owner]->redis;
        if (redis && redis_connected(redis))
            return slot;
        found = slot;
    }
    return found;
}

/* ---- the reply to CLUSTER SLOTS: ranges, each "first slot, last slot, master, replicas…"; a node
 * is "address, port, id, …" ---- */

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

/* Finds the node's address among its further names and values, which Redis 7 and later give. */
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

/* A node that does not know its own address leaves it out: then it is the node that was asked. "?"
 * stands for a missing name: then the address counts. */
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
        if (master_of(map, reply->element[i], asked) == CLUSTER_NO_NODE)
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
    int indices[CLUSTER_NODES_MAX], kept = 0;
    for (int i = 0; i < map->count; i++) {
        indices[i] = map->nodes[i]->master ? kept : CLUSTER_NO_NODE;
        if (map->nodes[i]->master)
            map->nodes[kept++] = map->nodes[i];
        else
            free_node(map->nodes[i]);
    }
    if (kept == map->count)
        return;
    map->count = kept;
    for (int slot = 0; slot < CLUSTER_SLOTS; slot++)
        if (map->owner[slot] != CLUSTER_NO_NODE)
            map->owner[slot] = (int16_t)indices[map->owner[slot]];
}

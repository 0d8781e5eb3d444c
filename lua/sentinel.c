/* Which server is the master, by the word of its sentinels. */
#include "lua/sentinel.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/url.h"

static bool is_text(const redisReply *reply, size_t size)
{
    return reply->type == REDIS_REPLY_STRING && reply->len > 0 && (size_t)reply->len < size;
}

/* The answer is the address and the port; nil for a name that the sentinel does not know. */
static bool read_address(const redisReply *reply, struct url_server *master_out)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        !is_text(reply->element[0], sizeof master_out->host) || !is_text(reply->element[1], 6))
        return false;
    strcpy(master_out->host, reply->element[0]->str);
    master_out->port = (unsigned)strtoul(reply->element[1]->str, NULL, 10);
    return master_out->port >= 1 && master_out->port <= 65535;
}

/* Says which server it was: the others may be well. */
static void tell(const char *who, const struct url_server *server, const char *why,
                 char error_out[TRANSPORT_ERROR_SIZE])
{
    char place[URL_PLACE_SIZE], text[TRANSPORT_ERROR_SIZE];
    url_server_place(server->host, server->port, place);
    bool other = strncmp(why, "SENTINEL: ERR unknown command", 29) == 0;
    snprintf(text, sizeof text, "%s", other ? "it is no sentinel" : why);
    snprintf(error_out, TRANSPORT_ERROR_SIZE, "%s %.90s: %.150s", who, place, text);
}

/* Asks one sentinel. */
static bool ask(const struct url *url, const struct url_server *sentinel, int64_t until_ms,
                struct url_server *master_out, char error_out[TRANSPORT_ERROR_SIZE])
{
    const char *question[] = {"SENTINEL", "get-master-addr-by-name", url->name};
    bool lost;
    struct wire *wire = wire_open(url, sentinel, until_ms, 1, error_out);
    if (!wire) {
        tell("sentinel", sentinel, error_out, error_out);
        return false;
    }
    wire_set_deadline(wire, until_ms);
    bool in = wire_login(wire, url->sentinel_user, url->sentinel_password);
    wire_set_deadline(wire, until_ms);
    redisReply *reply = in ? wire_ask(wire, 3, question, &lost) : NULL;
    bool known = reply && read_address(reply, master_out);
    if (!known)
        tell("sentinel", sentinel, reply ? "it knows no master of that name" : wire_error(wire),
             error_out);
    freeReplyObject(reply);
    wire_close(&wire);
    return known;
}

/* A user that may not ask gets a connection all the same: a server that is no master refuses the
 * first write, which is what the client leaves it for. */
static bool is_master(struct wire *wire, const struct url_server *server,
                      char error_out[TRANSPORT_ERROR_SIZE])
{
    const char *role[] = {"ROLE"};
    bool lost;
    redisReply *reply = wire_ask(wire, 1, role, &lost);
    bool other = reply && (reply->type != REDIS_REPLY_ARRAY || reply->elements < 1 ||
                           reply->element[0]->type != REDIS_REPLY_STRING ||
                           strcmp(reply->element[0]->str, "master") != 0);
    if (lost)
        tell("master", server, wire_error(wire), error_out);
    else if (other)
        tell("master", server, "the sentinels name it, and it is no master", error_out);
    freeReplyObject(reply);
    return !lost && !other;
}

static struct wire *connect_master(const struct url *url, const struct url_server *master,
                                   int64_t until_ms, int timeout_ms,
                                   char error_out[TRANSPORT_ERROR_SIZE])
{
    struct wire *wire = wire_open(url, master, until_ms, timeout_ms, error_out);
    if (!wire) {
        tell("master", master, error_out, error_out);
        return NULL;
    }
    wire_set_deadline(wire, until_ms);
    bool in = wire_login(wire, url->user, url->password);
    wire_set_deadline(wire, until_ms);
    if (!in)
        tell("master", master, wire_error(wire), error_out);
    if (!in || !is_master(wire, master, error_out))
        wire_close(&wire);
    else
        wire_set_timeout(wire, timeout_ms);
    return wire;
}

struct wire *sentinel_connect(const struct url *url, size_t *first, int64_t until_ms,
                              int timeout_ms, struct url_server *master_out,
                              char error_out[TRANSPORT_ERROR_SIZE])
{
    struct wire *wire = NULL;
    assert(url->server_count > 0);
    for (size_t left = url->server_count; left > 0 && !wire; left--) {
        int64_t now_ms = clock_now_ms();
        if (now_ms >= until_ms && left < url->server_count)
            break;
        /* Half of what is left: the first one asked answered last time, and is mostly well. */
        int64_t share_ms = (until_ms - now_ms) / 2;
        const struct url_server *sentinel = &url->servers[*first % url->server_count];
        if (ask(url, sentinel, now_ms + share_ms, master_out, error_out))
            wire = connect_master(url, master_out, until_ms, timeout_ms, error_out);
        if (!wire)
            *first = (*first + 1) % url->server_count;
    }
    return wire;
}

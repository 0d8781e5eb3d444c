/* Opens connections to Redis servers, logs in and checks the server's kind.
 *
 * why_the_kind: a node of a cluster serves the keys of its own slots and refuses the others, and a
 * sentinel serves no keys. Either would look like a server that works in part, so a wrong scheme in
 * a URL is reported at the first connect, and not by orders that fail. It costs one round trip per
 * connection; in return no command runs as the wrong user, on the wrong database or at a server of
 * another kind. */
#include "lua/connect.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/url.h"

/* ---- one command ---- */

static bool keep_error(char error_out[WIRE_ERROR_SIZE], const char *text)
{
    snprintf(error_out, WIRE_ERROR_SIZE, "%s", text);
    return false;
}

/* Takes the reply to `command`, which the caller frees. NULL when the connection is lost or the
 * reply is an error, with its text in `error_out`. */
static redisReply *answer(struct wire *wire, const char *command, char error_out[WIRE_ERROR_SIZE])
{
    redisReply *reply = wire_receive(wire);
    if (!reply)
        keep_error(error_out, wire_error(wire));
    if (!reply || reply->type != REDIS_REPLY_ERROR)
        return reply;
    snprintf(error_out, WIRE_ERROR_SIZE, "%s: %s", command, reply->str);
    freeReplyObject(reply);
    return NULL;
}

static bool accepted(struct wire *wire, const char *command, char error_out[WIRE_ERROR_SIZE])
{
    redisReply *reply = answer(wire, command, error_out);
    freeReplyObject(reply);
    return reply != NULL;
}

/* Queues the login, unless there is no password. A password alone logs in the default user, in the
 * one form that servers of any age take. */
static bool append_login(struct wire *wire, const char *user, const char *password)
{
    const char *named[] = {"AUTH", user, password}, *alone[] = {"AUTH", password};
    if (password[0] == '\0')
        return true;
    return user[0] ? wire_append(wire, 3, named, NULL) : wire_append(wire, 2, alone, NULL);
}

/* ---- the greeting ---- */

static bool append_greeting(struct wire *wire, const struct url *url)
{
    char database[16];
    const char *select[] = {"SELECT", database}, *hello[] = {"HELLO", "2"};
    snprintf(database, sizeof database, "%u", url->database_number);
    return append_login(wire, url->user, url->password) &&
           (url->database_number == 0 || wire_append(wire, 2, select, NULL)) &&
           wire_append(wire, 2, hello, NULL);
}

/* Returns the value of a name among names and values; "" when it is not there. */
static const char *value_of(const redisReply *reply, const char *name)
{
    for (size_t i = 0; reply->type == REDIS_REPLY_ARRAY && i + 1 < reply->elements; i += 2) {
        const redisReply *key = reply->element[i], *value = reply->element[i + 1];
        if (key->type == REDIS_REPLY_STRING && value->type == REDIS_REPLY_STRING &&
            strcmp(key->str, name) == 0)
            return value->str;
    }
    return "";
}

/* Returns in words why the URL does not fit the server that described itself so, or NULL. */
static const char *wrong_kind(const redisReply *hello, const struct url *url)
{
    const char *mode = value_of(hello, "mode"), *role = value_of(hello, "role");
    if (strcmp(mode, "sentinel") == 0)
        return url->tls
                   ? "it is a sentinel: the URL is rediss+sentinel://host:port/name-of-the-master"
                   : "it is a sentinel: the URL is redis+sentinel://host:port/name-of-the-master";
    if (strcmp(mode, "cluster") == 0 && url->kind != URL_CLUSTER)
        return url->tls ? "it is a node of a Redis Cluster: the URL begins with rediss+cluster"
                        : "it is a node of a Redis Cluster: the URL begins with redis+cluster";
    if (url->kind == URL_SENTINEL && role[0] != '\0' && strcmp(role, "master") != 0)
        return "the sentinels name it, and it is no master";
    return NULL;
}

/* True for an error that is not about HELLO: the server lets nobody in, or not this client. */
static bool shuts_out(const char *error)
{
    static const char *const kinds[] = {"HELLO: NOAUTH", "HELLO: DENIED",
                                        "HELLO: ERR max number of clients"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(error, kinds[i], strlen(kinds[i])) == 0)
            return true;
    return false;
}

static bool greet(struct wire *wire, const struct url *url, char error_out[WIRE_ERROR_SIZE])
{
    char hello_error[WIRE_ERROR_SIZE];
    const char *wrong = NULL;
    if (!append_greeting(wire, url))
        return keep_error(error_out, "out of memory");
    if (url->password[0] != '\0' && !accepted(wire, "AUTH", error_out))
        return false;
    bool selected = url->database_number == 0 || accepted(wire, "SELECT", error_out);
    redisReply *hello = answer(wire, "HELLO", hello_error);
    if (hello) /* a wrong kind explains why the server refused to SELECT */
        wrong = wrong_kind(hello, url);
    else if (wire_lost(wire) || (selected && shuts_out(hello_error)))
        wrong = hello_error;
    if (wrong)
        keep_error(error_out, wrong);
    freeReplyObject(hello);
    return selected && !wrong;
}

struct wire *connect_server(const struct url *url, const struct url_server *server,
                            int64_t until_ms, int timeout_ms, char error_out[WIRE_ERROR_SIZE])
{
    struct wire *wire = wire_open(url, server, until_ms, timeout_ms, error_out);
    if (!wire)
        return NULL;
    wire_set_deadline(wire, until_ms);
    if (greet(wire, url, error_out))
        wire_set_timeout(wire, timeout_ms);
    else
        wire_close(&wire);
    return wire;
}

/* ---- sentinels ---- */

static bool is_text(const redisReply *reply, size_t size)
{
    return reply->type == REDIS_REPLY_STRING && reply->len > 0 && (size_t)reply->len < size;
}

/* Reads the address and the port; the answer is nil for a name that the sentinel does not know. */
static bool read_address(const redisReply *reply, struct url_server *master_out)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        !is_text(reply->element[0], sizeof master_out->host) || !is_text(reply->element[1], 6))
        return false;
    strcpy(master_out->host, reply->element[0]->str);
    master_out->port = (unsigned)strtoul(reply->element[1]->str, NULL, 10);
    return master_out->port >= 1 && master_out->port <= 65535;
}

/* Prefixes the error with the server, so that the others are not blamed. */
static void blame(const char *who, const struct url_server *server, char error_out[WIRE_ERROR_SIZE])
{
    char address[URL_PLACE_SIZE], why[WIRE_ERROR_SIZE];
    url_server_place(server->host, server->port, address);
    bool other = strncmp(error_out, "SENTINEL: ERR unknown command", 29) == 0;
    keep_error(why, other ? "it is no sentinel" : error_out);
    snprintf(error_out, WIRE_ERROR_SIZE, "%s %.90s: %.150s", who, address, why);
}

static bool ask(struct wire *wire, const struct url *url, struct url_server *master_out,
                char error_out[WIRE_ERROR_SIZE])
{
    const char *question[] = {"SENTINEL", "get-master-addr-by-name", url->name};
    if (!append_login(wire, url->sentinel_user, url->sentinel_password) ||
        !wire_append(wire, 3, question, NULL))
        return keep_error(error_out, "out of memory");
    if (url->sentinel_password[0] != '\0' && !accepted(wire, "AUTH", error_out))
        return false;
    redisReply *reply = answer(wire, "SENTINEL", error_out);
    bool known = reply && read_address(reply, master_out);
    if (reply && !known)
        keep_error(error_out, "it knows no master of that name");
    freeReplyObject(reply);
    return known;
}

static bool ask_sentinel(const struct url *url, const struct url_server *sentinel, int64_t until_ms,
                         struct url_server *master_out, char error_out[WIRE_ERROR_SIZE])
{
    struct wire *wire = wire_open(url, sentinel, until_ms, 1, error_out);
    if (wire)
        wire_set_deadline(wire, until_ms);
    bool known = wire && ask(wire, url, master_out, error_out);
    if (!known)
        blame("sentinel", sentinel, error_out);
    wire_close(&wire);
    return known;
}

struct wire *connect_master(const struct url *url, size_t *first, int64_t until_ms, int timeout_ms,
                            struct url_server *master_out, char error_out[WIRE_ERROR_SIZE])
{
    struct wire *wire = NULL;
    assert(url->server_count > 0);
    for (size_t left = url->server_count; left > 0 && !wire; left--) {
        int64_t now_ms = clock_now_ms();
        if (now_ms >= until_ms && left < url->server_count)
            break;
        /* Half of the rest: the first one asked answered last time, and mostly does so now. */
        int64_t share_ms = (until_ms - now_ms) / 2;
        const struct url_server *sentinel = &url->servers[*first % url->server_count];
        if (ask_sentinel(url, sentinel, now_ms + share_ms, master_out, error_out)) {
            wire = connect_server(url, master_out, until_ms, timeout_ms, error_out);
            if (!wire)
                blame("master", master_out, error_out);
        }
        if (!wire)
            *first = (*first + 1) % url->server_count;
    }
    return wire;
}

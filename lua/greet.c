/* What is said first on a connection to a server.
 *
 * why_the_kind: a node of a cluster serves the keys of its own slots and refuses the others, and a
 * sentinel serves none. Either would look like a server that works in part, so whoever has written
 * the wrong scheme in a URL is told at the first connect, and not by the orders that fail. */
#include "lua/greet.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <string.h>

#include "base/url.h"

static bool queue(struct wire *wire, const struct greeting *greeting)
{
    char database[16];
    const char *select[] = {"SELECT", database}, *hello[] = {"HELLO", "2"};
    const struct url *url = greeting->url;
    snprintf(database, sizeof database, "%u", url->database_number);
    return (!greeting->login || wire_append_login(wire, url->user, url->password)) &&
           (greeting->cluster || wire_append(wire, 2, select, NULL)) &&
           wire_append(wire, 2, hello, NULL);
}

/* The value of a name among names and values; "" when it is not there. */
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

/* What is wrong with a server of that kind, or NULL. */
static const char *advice(const char *mode, const struct greeting *greeting)
{
    bool tls = greeting->url->tls;
    if (strcmp(mode, "sentinel") == 0)
        return tls ? "it is a sentinel: the URL is rediss+sentinel://host:port/name-of-the-master"
                   : "it is a sentinel: the URL is redis+sentinel://host:port/name-of-the-master";
    if (strcmp(mode, "cluster") == 0 && !greeting->cluster)
        return tls ? "it is a node of a Redis Cluster: the URL begins with rediss+cluster"
                   : "it is a node of a Redis Cluster: the URL begins with redis+cluster";
    return NULL;
}

/* Errors that say nothing of HELLO: the server lets nobody in, or not this client. */
static bool shuts_out(const char *error)
{
    static const char *const kinds[] = {"HELLO: NOAUTH", "HELLO: DENIED",
                                        "HELLO: ERR max number of clients"};
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (strncmp(error, kinds[i], strlen(kinds[i])) == 0)
            return true;
    return false;
}

/* A port of TLS ends a connection that begins with anything else. */
static void tell_lost(const struct wire *wire, const struct greeting *greeting,
                      char error_out[TRANSPORT_ERROR_SIZE])
{
    bool hint = !greeting->url->tls && !wire_answered(wire) && !wire_late(wire);
    snprintf(error_out, TRANSPORT_ERROR_SIZE, "%s%s", wire_error(wire),
             hint ? ", before the first answer: if the port speaks TLS, the URL begins with rediss"
                  : "");
}

/* Takes the reply to one command that must succeed; keeps the error of one that does not. */
static bool expect(struct wire *wire, const char *command, bool *lost,
                   char error_out[TRANSPORT_ERROR_SIZE])
{
    redisReply *reply = wire_answer(wire, command, lost);
    bool good = reply != NULL;
    if (!good && !*lost)
        snprintf(error_out, TRANSPORT_ERROR_SIZE, "%s", wire_error(wire));
    freeReplyObject(reply);
    return good;
}

/* Takes the reply to HELLO; what it says of a wrong kind explains errors of the commands before. */
static bool take_hello(struct wire *wire, const struct greeting *greeting, bool *lost,
                       char error_out[TRANSPORT_ERROR_SIZE])
{
    redisReply *hello = wire_answer(wire, "HELLO", lost);
    const char *wrong = hello ? advice(value_of(hello, "mode"), greeting) : NULL;
    if (!hello && !*lost && error_out[0] == '\0' && shuts_out(wire_error(wire)))
        wrong = wire_error(wire);
    if (wrong)
        snprintf(error_out, TRANSPORT_ERROR_SIZE, "%s", wrong);
    freeReplyObject(hello);
    return !wrong && !*lost;
}

bool greet(struct wire *wire, const struct greeting *greeting, int64_t until_ms,
           char error_out[TRANSPORT_ERROR_SIZE])
{
    const struct url *url = greeting->url;
    bool lost = false;
    error_out[0] = '\0';
    wire_set_deadline(wire, until_ms);
    if (!queue(wire, greeting)) {
        snprintf(error_out, TRANSPORT_ERROR_SIZE, "out of memory");
        return false;
    }
    bool good =
        !greeting->login || url->password[0] == '\0' || expect(wire, "AUTH", &lost, error_out);
    if (good) {
        good = greeting->cluster || expect(wire, "SELECT", &lost, error_out);
        good = !lost && take_hello(wire, greeting, &lost, error_out) && good;
    }
    if (lost && error_out[0] == '\0')
        tell_lost(wire, greeting, error_out);
    return good && !lost;
}

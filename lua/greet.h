/* What is said first on a connection to a server. */
#ifndef LUA_GREET_H
#define LUA_GREET_H

#include "lua/wire.h"

/* What a greeting has to say. */
struct greeting {
    const struct url *url;
    bool login;   /* with the URL's user and password */
    bool cluster; /* the server is to be a node of a cluster, which has no database to select */
};

/* Logs in, selects the database and asks what kind of server it is, in one round trip, until
 * `until_ms` (clock_now_ms). False with the reason in `error_out`: the connection is lost, the
 * server refuses, or it is of a kind that the URL's scheme is not for; then the reason says which
 * is. A server that does not tell its kind is taken as it is. */
bool greet(struct wire *wire, const struct greeting *greeting, int64_t until_ms,
           char error_out[TRANSPORT_ERROR_SIZE]);

#endif

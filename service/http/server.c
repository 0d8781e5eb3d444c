/* All HTTP threads of the daemon and the sockets that they listen on. */
#include "service/http/server.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "service/config/address.h"
#include "service/http/http.h"
#include "service/log/log.h"

enum {
    HTTP_THREADS_MAX = LISTENER_SOCKETS_MAX + 1,
    INHERITED_PATIENCE_S = 10, /* clients wait in the backlog of systemd's socket */
};

struct http_server {
    struct service *service;
    struct listener public, admin; /* an HTTP thread owns its socket once it runs */
    struct http_room public_room, admin_room;
    bool apart; /* operators have their own listener */
    bool started;
    struct http_thread *threads[HTTP_THREADS_MAX]; /* the operators' first, with `apart` */
};

static bool says_shared(const struct service *service)
{
    return strcmp(service->config.reuse_port, "on") == 0;
}

static void room_open(struct http_room *room, unsigned classes, unsigned most,
                      struct connection_use *use)
{
    assert(most > 0);
    *room = (struct http_room){classes, "http-thread", .most = most, .use = use};
    atomic_store(&use->max, most);
}

/* ---- the operators' listener ---- */

static bool open_admin(struct http_server *server, char *error_out, size_t error_size)
{
    const char *where = server->service->config.admin_listen;
    if (!listener_inherit(&server->admin, "admin", 1, error_out, error_size))
        return false;
    if (server->admin.count > 0 || where[0] == '\0')
        return true;
    const char *path = endpoint_path(where);
    if (path)
        return listener_bind_unix(&server->admin, path, error_out, error_size);
    if (!listener_bind(&server->admin, where, 1, LISTENER_OWN, error_out, error_size))
        return false;
    if (!listener_listen(&server->admin))
        return listener_refuse(error_out, error_size, "%s", strerror(errno));
    return true;
}

static bool prepare_admin(struct http_server *server)
{
    char why[200];
    if (!open_admin(server, why, sizeof why))
        return listener_refuse(server->service->error, REASON_SIZE, "admin_listen: %s", why);
    server->apart = server->admin.count > 0;
    if (!server->apart)
        return true;
    room_open(&server->admin_room, ROUTE_OPERATORS, server->service->operators_max,
              &server->service->admin_use);
    server->admin_room.thread_name = "http-admin";
    server->admin_room.inherited = server->admin.inherited;
    server->admin_room.beside = &server->public_room;
    server->public_room.beside = &server->admin_room;
    server->public_room.classes = ROUTE_PUBLIC;
    return true;
}

bool http_server_start_admin(struct http_server *server)
{
    if (!server->apart)
        return true;
    server->threads[0] = http_start(server->service, &server->admin_room, server->admin.fds[0]);
    if (!server->threads[0])
        return false;
    server->admin.count = 0;
    log_event(LOG_INFO, "admin_listening", "address=%s", LOG_QUOTE(server->admin.address));
    return true;
}

/* ---- all listeners ---- */

static bool open_public(struct http_server *server)
{
    const struct config *config = &server->service->config;
    char *error = server->service->error;
    enum listener_share share = says_shared(server->service) ? LISTENER_SHARED : LISTENER_OWN;
    if (!listener_inherit(&server->public, NULL, config->http_threads, error, REASON_SIZE))
        return false;
    return server->public.count > 0 ||
           listener_bind(&server->public, config->listen, config->http_threads, share, error,
                         REASON_SIZE);
}

struct http_server *http_server_open(struct service *service)
{
    if (!head_library_fits()) {
        snprintf(service->error, REASON_SIZE,
                 "libmicrohttpd %s is loaded, and this program was built "
                 "for another: build it again",
                 MHD_get_version());
        return NULL;
    }
    struct http_server *server = memory_must(calloc(1, sizeof *server));
    server->service = service;
    room_open(&server->public_room, ROUTE_ALL, service->connections_max, &service->public_use);
    if (open_public(server) && prepare_admin(server))
        return server;
    http_server_close(&server);
    return NULL;
}

const char *http_server_address(const struct http_server *server)
{
    return server->public.address;
}

int64_t http_server_patience_ns(const struct http_server *server)
{
    if (server->public.inherited)
        return INHERITED_PATIENCE_S * CLOCK_NS_PER_S;
    return says_shared(server->service) ? INT64_MAX : 0;
}

bool http_server_start(struct http_server *server)
{
    struct service *service = server->service;
    struct listener *listener = &server->public;
    assert(!server->started);
    if (!listener_listen(listener))
        return listener_refuse(service->error, REASON_SIZE, "%s", strerror(errno));
    server->public_room.inherited = listener->inherited;
    for (; listener->count > 0; listener->count--) {
        struct http_thread **thread = &server->threads[server->apart + listener->count - 1];
        *thread = http_start(service, &server->public_room, listener->fds[listener->count - 1]);
        if (!*thread)
            return false;
    }
    server->started = true;
    tokens_warn(&service->config, listener->address);
    log_event(LOG_INFO, "listening", "address=%s", listener->address);
    return true;
}

bool http_server_started(const struct http_server *server)
{
    return server->started;
}

int64_t http_server_turned_ns(const struct http_server *server)
{
    int64_t oldest_ns = INT64_MAX;
    for (size_t i = 0; i < HTTP_THREADS_MAX; i++) {
        const struct http_thread *thread = server->threads[i];
        int64_t turned_ns =
            thread ? atomic_load_explicit(&thread->turned_ns, memory_order_relaxed) : INT64_MAX;
        oldest_ns = turned_ns < oldest_ns ? turned_ns : oldest_ns;
    }
    return oldest_ns;
}

/* ---- the end ---- */

void http_server_drain(struct http_server *server)
{
    if (!server)
        return;
    assert(atomic_load(&server->service->phase) == SERVICE_DRAINS);
    for (size_t i = 0; i < HTTP_THREADS_MAX; i++)
        if (server->threads[i])
            request_home_wake(&server->threads[i]->home);
    for (size_t i = 0; i < HTTP_THREADS_MAX; i++)
        if (server->threads[i])
            http_join(server->threads[i]);
}

void http_server_close(struct http_server **server_pointer)
{
    struct http_server *server = *server_pointer;
    *server_pointer = NULL;
    if (!server)
        return;
    for (size_t i = 0; i < HTTP_THREADS_MAX; i++)
        http_close(&server->threads[i]);
    listener_close(&server->public, 0);
    listener_close(&server->admin, 0);
    free(server);
}

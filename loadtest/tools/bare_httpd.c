/* Answers every request with one static 201: the limit that libmicrohttpd sets to the service. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <microhttpd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

/* The service's own answer to a shop's order, with the heads that it has. */
static const char accepted_body[] =
    "{\"order_id\":\"251726847769837568\",\"sku\":\"sale-0\",\"round\":1,\"user_id\":\"u00123456\","
    "\"qty\":1,\"segment\":17,\"status\":\"reserved\",\"created_at\":\"2026-11-20T21:30:00.123Z\","
    "\"expires_at\":\"2026-11-20T21:31:00.123Z\"}";

enum {
    CONNECTIONS_MAX = 16384,
    /* Cleared for each request: a small one is a little faster, and these are of 150 bytes. */
    CONNECTION_POOL_BYTES = 4096,
    LISTEN_BACKLOG = 4096,
};

static struct MHD_Response *accepted;

/* Called once with the head, once for each piece of the body, once at the end of the body. */
static enum MHD_Result answer(void *cls, struct MHD_Connection *connection, const char *url,
                              const char *method, const char *version, const char *upload,
                              size_t *upload_bytes, void **state)
{
    (void)cls, (void)url, (void)method, (void)version, (void)upload;
    if (*state == NULL) {
        *state = accepted;
        return MHD_YES;
    }
    if (*upload_bytes > 0) {
        *upload_bytes = 0;
        return MHD_YES;
    }
    return MHD_queue_response(connection, MHD_HTTP_CREATED, accepted);
}

static void fail(const char *what)
{
    fprintf(stderr, "bare_httpd: %s: %s\n", what, strerror(errno));
    exit(1);
}

static bool parse_listen(const char *text, struct sockaddr_in *address_out)
{
    char host[INET_ADDRSTRLEN];
    unsigned port;
    char rest;

    memset(address_out, 0, sizeof(*address_out));
    address_out->sin_family = AF_INET;
    if (sscanf(text, "%15[0-9.]:%5u%c", host, &port, &rest) != 2 || port > 65535)
        return false;
    address_out->sin_port = htons((uint16_t)port);
    return inet_pton(AF_INET, host, &address_out->sin_addr) == 1;
}

static struct MHD_Response *make_accepted(void)
{
    struct MHD_Response *made = MHD_create_response_from_buffer(
        strlen(accepted_body), (void *)(size_t)accepted_body, MHD_RESPMEM_PERSISTENT);

    if (made != NULL) {
        MHD_add_response_header(made, MHD_HTTP_HEADER_CONTENT_TYPE, "application/json");
        MHD_add_response_header(made, MHD_HTTP_HEADER_CACHE_CONTROL, "no-store");
        MHD_add_response_header(made, MHD_HTTP_HEADER_LOCATION, "/order/251726847769837568");
    }
    return made;
}

static struct MHD_Daemon *start(struct sockaddr_in *address)
{
    accepted = make_accepted();
    if (accepted == NULL)
        return NULL;
    return MHD_start_daemon(
        MHD_USE_EPOLL | MHD_USE_TURBO, 0, NULL, NULL, answer, NULL, MHD_OPTION_SOCK_ADDR,
        (struct sockaddr *)address, MHD_OPTION_CONNECTION_LIMIT, (unsigned)CONNECTIONS_MAX,
        MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONNECTION_POOL_BYTES,
        MHD_OPTION_LISTEN_BACKLOG_SIZE, (unsigned)LISTEN_BACKLOG, MHD_OPTION_END);
}

static void announce(struct MHD_Daemon *daemon, const struct sockaddr_in *address)
{
    char host[INET_ADDRSTRLEN], now[32];
    const union MHD_DaemonInfo *port = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_BIND_PORT);
    time_t seconds = time(NULL);

    strftime(now, sizeof(now), "%Y-%m-%dT%H:%M:%S.000Z", gmtime(&seconds));
    inet_ntop(AF_INET, &address->sin_addr, host, sizeof(host));
    fprintf(stderr, "ts=%s level=info event=listening address=%s:%u\n", now, host,
            (unsigned)port->port);
}

/* The service's loop holds further descriptors beside libmicrohttpd's, hence the loop around it. */
static void serve(struct MHD_Daemon *daemon)
{
    const union MHD_DaemonInfo *inner = MHD_get_daemon_info(daemon, MHD_DAEMON_INFO_EPOLL_FD);
    struct epoll_event event = {.events = EPOLLIN};
    int loop = epoll_create1(EPOLL_CLOEXEC);

    if (loop < 0 || epoll_ctl(loop, EPOLL_CTL_ADD, inner->epoll_fd, &event) != 0)
        fail("epoll");
    for (;;) {
        MHD_UNSIGNED_LONG_LONG wait_ms;
        if (MHD_get_timeout(daemon, &wait_ms) != MHD_YES)
            wait_ms = 1000;
        if (epoll_wait(loop, &event, 1, (int)wait_ms) < 0 && errno != EINTR)
            fail("epoll_wait");
        MHD_run(daemon);
    }
}

int main(int argc, char **argv)
{
    struct sockaddr_in address;
    const char *listen_on = argc == 3 ? argv[2] : "127.0.0.1:0";
    struct MHD_Daemon *daemon;

    if ((argc != 1 && (argc != 3 || strcmp(argv[1], "--listen") != 0)) ||
        !parse_listen(listen_on, &address)) {
        fprintf(stderr, "usage: bare_httpd [--listen 127.0.0.1:0]\n");
        return 2;
    }
    daemon = start(&address);
    if (daemon == NULL)
        fail("cannot start");
    announce(daemon, &address);
    serve(daemon);
}

/* What libmicrohttpd refuses by itself is answered with problem documents, as all other errors are.
 *
 * why_hidden: libmicrohttpd has no option for its error pages, but it sends them by its public
 * MHD_queue_response. This program has a function of that name, and the dynamic linker prefers a
 * program's definition to a library's, for the library's own calls, too. Not so for a library that
 * was linked with -Bsymbolic: then such a client gets libmicrohttpd's page, as test/http would
 * show. */
#define _GNU_SOURCE /* RTLD_NEXT */
#include <assert.h>
#include <dlfcn.h>
#include <linux/tcp.h> /* netinet/tcp.h knows fewer fields of tcp_info */
#include <netinet/in.h>
#include <sys/socket.h>

#include "service/http/http.h"

http_queue *refusal_library_queue(void)
{
    http_queue *queue = NULL;
    *(void **)&queue = dlsym(RTLD_NEXT, "MHD_queue_response");
    assert(queue);
    return queue;
}

/* Called by libmicrohttpd alone, with its page for a request that it refuses. The answer goes past
 * it, since the head may have left it no memory for one. It goes on as if its page were sent, and
 * finds the connection closed. */
enum MHD_Result MHD_queue_response(struct MHD_Connection *mhd, unsigned status,
                                   struct MHD_Response *response)
{
    struct http_connection *connection =
        MHD_get_connection_info(mhd, MHD_CONNECTION_INFO_SOCKET_CONTEXT)->socket_context;
    const struct request *request = connection->request;
    reply_past_libmicrohttpd(connection,
                             head_refused(mhd, status, request ? &request->http : NULL));
    return connection->thread->queue(mhd, status, response);
}

/* Something was received, not only the close of its client's side, which counts as one byte. */
static bool has_received(const struct http_connection *connection)
{
    struct tcp_info info;
    socklen_t size = sizeof info;
    return getsockopt(connection->fd, IPPROTO_TCP, TCP_INFO, &info, &size) == 0 &&
           size == sizeof info && info.tcpi_bytes_received > 1;
}

/* A connection that ends without a request, before its client or its last answer has ended it, was
 * given up; one whose client has closed its side, if something came before and was no request. */
bool refusal_silent(const struct http_connection *connection)
{
    if (connection->state == CONNECTION_GOING || connection->last || connection->thread->closing)
        return false;
    bool has_client = connection_peek(connection) != 0;
    return has_client || (!connection->asked && has_received(connection));
}

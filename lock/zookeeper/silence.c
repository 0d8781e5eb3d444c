/* Finds connections on which a server has never said anything.
 *
 * why_by_the_peer: ZooKeeper's library shows nobody its descriptor, but tells the server's address.
 * So we look for the connection among all that the process has. If the one found is not the
 * library's, its owner waits in vain as well. */
#include "lock/zookeeper/silence.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/tcp.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/url.h"

enum {
    SYN_SENT = 2,        /* TCP_SYN_SENT, whose header excludes linux/tcp.h */
    SYN_AGAIN_MS = 1000, /* a connect is repeated at least this much later each time */
};

/* Writes the peer's address and port. SO_PEERNAME knows the peer of an unfinished connect, which
 * getpeername(2) does not; it takes no larger buffer than the address needs. */
static bool find_peer(int fd, char place_out[URL_PLACE_SIZE])
{
    union {
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
    } peer;
    int domain = 0;
    char host[INET6_ADDRSTRLEN];
    socklen_t size = sizeof domain;
    if (getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &size) != 0 ||
        (domain != AF_INET && domain != AF_INET6))
        return false;
    bool v4 = domain == AF_INET;
    size = v4 ? sizeof peer.v4 : sizeof peer.v6;
    if (getsockopt(fd, SOL_SOCKET, SO_PEERNAME, &peer, &size) != 0)
        return false;
    const void *address = v4 ? (void *)&peer.v4.sin_addr : (void *)&peer.v6.sin6_addr;
    inet_ntop(domain, address, host, sizeof host);
    url_server_place(host, ntohs(v4 ? peer.v4.sin_port : peer.v6.sin6_port), place_out);
    return true;
}

static enum silence silence_of(int fd, const char *server, int silent_ms)
{
    char place[URL_PLACE_SIZE];
    struct tcp_info info;
    socklen_t size = sizeof info;
    if (!find_peer(fd, place) || strcmp(place, server) != 0 ||
        getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &size) != 0 ||
        size < offsetof(struct tcp_info, tcpi_segs_out) || info.tcpi_bytes_received > 0)
        return SILENCE_NONE;
    unsigned since_ms = info.tcpi_state == SYN_SENT ? info.tcpi_retransmits * SYN_AGAIN_MS
                                                    : info.tcpi_last_ack_recv;
    return since_ms >= (unsigned)silent_ms ? SILENCE_LONG : SILENCE_SHORT;
}

/* Looks again at the duplicate, which stays what it is: the owner may have closed the descriptor
 * meanwhile, and its number may be another file's. */
static enum silence look_at(int fd, const char *server, int silent_ms, int *socket_out)
{
    enum silence silence = silence_of(fd, server, silent_ms);
    if (silence != SILENCE_LONG)
        return silence;
    *socket_out = fcntl(fd, F_DUPFD_CLOEXEC, 0);
    if (*socket_out >= 0 && silence_of(*socket_out, server, silent_ms) == SILENCE_LONG)
        return SILENCE_LONG;
    if (*socket_out >= 0)
        close(*socket_out);
    return SILENCE_NONE;
}

enum silence silence_find(const char *server, int silent_ms, int *socket_out)
{
    enum silence found = SILENCE_NONE;
    DIR *descriptors = opendir("/proc/self/fd");
    if (!descriptors)
        return SILENCE_NONE;
    for (const struct dirent *entry;
         found != SILENCE_LONG && (entry = readdir(descriptors)) != NULL;) {
        enum silence one = look_at(atoi(entry->d_name), server, silent_ms, socket_out);
        found = one > found ? one : found;
    }
    closedir(descriptors);
    return found;
}

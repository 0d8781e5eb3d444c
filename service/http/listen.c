/* Listening sockets: bound here or passed by systemd, shared by HTTP threads, and closed so that no
 * client that has connected is lost. */
#include "service/http/listen.h"

#include <arpa/inet.h>
#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "service/config/address.h"

enum {
    BACKLOG = 4096,
    SEND_BUFFER = 65536, /* bytes of unread answers per client, which the kernel doubles */
    INHERITED_FIRST = 3, /* the first descriptor that systemd passes */
    INHERITED_MAX = LISTENER_SOCKETS_MAX + 1, /* one of them is the operators' */
};

static void write_address(int fd, char *out, size_t size)
{
    struct sockaddr_storage storage = {.ss_family = AF_UNSPEC};
    socklen_t length = sizeof storage;
    char host[NI_MAXHOST] = "", port[NI_MAXSERV] = "";
    getsockname(fd, (struct sockaddr *)&storage, &length);
    if (storage.ss_family == AF_UNIX) {
        snprintf(out, size, "unix:%s", ((struct sockaddr_un *)&storage)->sun_path);
        return;
    }
    getnameinfo((struct sockaddr *)&storage, length, host, sizeof host, port, sizeof port,
                NI_NUMERICHOST | NI_NUMERICSERV);
    snprintf(out, size, storage.ss_family == AF_INET6 ? "[%s]:%s" : "%s:%s", host, port);
}

bool listener_refuse(char *error_out, size_t error_size, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(error_out, error_size, format, arguments);
    va_end(arguments);
    return false;
}

void listener_close(struct listener *listener, unsigned first)
{
    for (unsigned i = first; i < listener->count; i++)
        close(listener->fds[i]);
    listener->count = first < listener->count ? first : listener->count;
}

/* ---- bound here ---- */

static int bind_one(const struct addrinfo *where, bool shared)
{
    int one = 1;
    int fd = socket(where->ai_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &(int){SEND_BUFFER}, sizeof(int)); /* inherited */
    if (shared) /* the kernel spreads new connections over the sockets */
        setsockopt(fd, SOL_SOCKET, SO_REUSEPORT, &one, sizeof one);
    if (bind(fd, where->ai_addr, where->ai_addrlen) == 0)
        return fd;
    int error = errno; /* bind's errno for the caller: close may change it */
    close(fd);
    errno = error;
    return -1;
}

/* True when no process is bound to the address, not even one that shares it. */
static bool is_free(const struct addrinfo *where)
{
    int fd = bind_one(where, false);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* Binds all sockets to one address; with port 0 all get the port that the first one got. False with
 * errno. */
static bool bind_all(struct listener *listener, const struct addrinfo *where, unsigned count,
                     enum listener_share share)
{
    struct sockaddr_storage address;
    struct addrinfo bound = *where;
    bool shared = count > 1 || share == LISTENER_SHARED;
    if (shared && share == LISTENER_OWN && !is_free(where))
        return false;
    for (listener->count = 0; listener->count < count; listener->count++) {
        int fd = bind_one(&bound, shared);
        if (fd < 0) {
            int error = errno;
            listener_close(listener, 0);
            errno = error;
            return false;
        }
        listener->fds[listener->count] = fd;
        bound.ai_addr = (struct sockaddr *)&address;
        bound.ai_addrlen = sizeof address;
        getsockname(fd, bound.ai_addr, &bound.ai_addrlen);
    }
    return true;
}

bool listener_bind(struct listener *listener, const char *address, unsigned count,
                   enum listener_share share, char *error_out, size_t error_size)
{
    const struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE};
    struct addrinfo *found = NULL;
    struct endpoint endpoint;
    assert(count > 0 && count <= LISTENER_SOCKETS_MAX);
    *listener = (struct listener){.count = 0};
    if (!endpoint_parse(address, &endpoint))
        return listener_refuse(error_out, error_size, "not of the form host:port");
    int failed = getaddrinfo(endpoint.host, endpoint.port, &hints, &found);
    if (failed != 0)
        return listener_refuse(error_out, error_size, "%s", gai_strerror(failed));
    /* A name may have several addresses: serves the first one that can be bound. */
    bool bound = false;
    for (struct addrinfo *where = found; where && !bound; where = where->ai_next)
        bound = bind_all(listener, where, count, share);
    if (bound)
        write_address(listener->fds[0], listener->address, sizeof listener->address);
    else
        snprintf(error_out, error_size, "%s", strerror(errno));
    freeaddrinfo(found);
    return bound;
}

bool listener_listen(const struct listener *listener)
{
    for (unsigned i = 0; i < listener->count; i++)
        if (!listener->inherited && listen(listener->fds[i], BACKLOG) != 0)
            return false;
    return true;
}

/* ---- passed by systemd ---- */

/* The number of descriptors that systemd passed to this process. */
static long passed_count(void)
{
    const char *pid = getenv("LISTEN_PID"), *fds = getenv("LISTEN_FDS");
    if (!pid || !fds || strtol(pid, NULL, 10) != (long)getpid())
        return 0;
    long count = strtol(fds, NULL, 10);
    return count > 0 ? count : 0;
}

/* Copies the i-th name of LISTEN_FDNAMES; "" when there is none. */
static void passed_name(int i, char *name_out, size_t size)
{
    const char *at = getenv("LISTEN_FDNAMES");
    for (; at && i > 0; i--)
        at = (at = strchr(at, ':')) ? at + 1 : NULL;
    snprintf(name_out, size, "%.*s", at ? (int)strcspn(at, ":") : 0, at ? at : "");
}

static bool is_named(int i, const char *name)
{
    char found[64];
    passed_name(i, found, sizeof found);
    return name ? strcmp(found, name) == 0 : strcmp(found, "admin") != 0;
}

static bool is_listening(int fd)
{
    int type = 0, listens = 0;
    socklen_t type_length = sizeof type, listens_length = sizeof listens;
    return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &type_length) == 0 && type == SOCK_STREAM &&
           getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_length) == 0 && listens;
}

/* Makes the socket non-blocking, as libmicrohttpd needs. */
static bool take(struct listener *listener, int fd, char *error_out, size_t error_size)
{
    if (!is_listening(fd))
        return listener_refuse(error_out, error_size,
                               "systemd's descriptor %d is no listening stream socket", fd);
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    if (listener->count == LISTENER_SOCKETS_MAX)
        return listener_refuse(error_out, error_size, "systemd passes more than %d sockets",
                               LISTENER_SOCKETS_MAX);
    listener->fds[listener->count++] = fd;
    return true;
}

bool listener_inherit(struct listener *listener, const char *name, unsigned count, char *error_out,
                      size_t error_size)
{
    long given = passed_count();
    *listener = (struct listener){.inherited = true};
    if (given > INHERITED_MAX)
        return listener_refuse(error_out, error_size, "systemd passes %ld sockets, more than %d",
                               given, INHERITED_MAX);
    for (int i = 0; i < given; i++)
        if (is_named(i, name) && !take(listener, INHERITED_FIRST + i, error_out, error_size))
            return false;
    unsigned passed = listener->count;
    if (passed > count)
        return listener_refuse(error_out, error_size, "systemd passes %u sockets for %u threads",
                               passed, count);
    /* With fewer sockets than threads, several threads accept from the same one. */
    for (; passed > 0 && listener->count < count; listener->count++) {
        int fd = fcntl(listener->fds[listener->count % passed], F_DUPFD_CLOEXEC, 0);
        if (fd < 0)
            return listener_refuse(error_out, error_size, "%s", strerror(errno));
        listener->fds[listener->count] = fd;
    }
    if (passed > 0)
        write_address(listener->fds[0], listener->address, sizeof listener->address);
    return true;
}

/* ---- the end ---- */

/* A classic BPF program that the kernel runs on each packet for the socket, from the TCP header on:
 * it drops packets with SYN and without ACK. */
bool listener_ignore_new(int fd)
{
    enum { FLAGS = 13, SYN = 0x02, ACK = 0x10 };
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_B | BPF_ABS, FLAGS),
        BPF_STMT(BPF_ALU | BPF_AND | BPF_K, SYN | ACK),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYN, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, 0),
        BPF_STMT(BPF_RET | BPF_K, UINT32_MAX),
    };
    const struct sock_fprog program = {.len = sizeof code / sizeof *code, .filter = code};
    int domain = 0;
    socklen_t length = sizeof domain;
    return getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &length) == 0 && domain != AF_UNIX &&
           setsockopt(fd, SOL_SOCKET, SO_ATTACH_FILTER, &program, sizeof program) == 0;
}

bool listener_has_waiting(int fd)
{
    struct pollfd waiting = {.fd = fd, .events = POLLIN};
    return poll(&waiting, 1, 0) == 1 && (waiting.revents & POLLIN);
}

/* ---- Unix sockets ---- */

/* why_rename: the socket is bound under a temporary name and renamed once it has its mode and
 * listens. So nobody connects before that, and the path always exists.
 *
 * The file stays when the daemon ends: removing it could hit the new socket of another daemon. */

enum { UNIX_BACKLOG = 128, MODE = 0660 };

static_assert(ENDPOINT_PATH_SIZE + 12 <= (int)sizeof((struct sockaddr_un *)NULL)->sun_path,
              "a path with a process id behind it fits");

static int socket_new(const char *path, struct sockaddr_un *address_out)
{
    *address_out = (struct sockaddr_un){.sun_family = AF_UNIX};
    snprintf(address_out->sun_path, sizeof address_out->sun_path, "%s", path);
    return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* NULL when the path is free or holds a socket that nobody listens on; else the reason. */
static const char *why_taken(const char *path)
{
    struct stat status;
    struct sockaddr_un address;
    if (lstat(path, &status) != 0)
        return errno == ENOENT ? NULL : strerror(errno);
    if (!S_ISSOCK(status.st_mode))
        return "a file that is no socket is there";
    int fd = socket_new(path, &address);
    bool refused = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0 &&
                   errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return refused ? NULL : "another process serves this socket";
}

bool listener_bind_unix(struct listener *listener, const char *path, char *error_out,
                        size_t error_size)
{
    char name[ENDPOINT_PATH_SIZE + 12];
    struct sockaddr_un address;
    const char *taken = why_taken(path);
    *listener = (struct listener){.count = 0};
    if (taken)
        return listener_refuse(error_out, error_size, "%s", taken);
    snprintf(name, sizeof name, "%s.%d", path, (int)getpid());
    unlink(name); /* left by a process with our pid that died in between */
    int fd = socket_new(name, &address);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        chmod(name, MODE) == 0 && listen(fd, UNIX_BACKLOG) == 0 && rename(name, path) == 0) {
        *listener = (struct listener){.fds = {fd}, .count = 1};
        snprintf(listener->address, sizeof listener->address, "unix:%s", path);
        return true;
    }
    snprintf(error_out, error_size, "%s", strerror(errno));
    if (fd >= 0)
        close(fd);
    unlink(name);
    return false;
}

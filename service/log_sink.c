/* Where the log goes, without ever waiting for its reader. */
#include "service/log_sink.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum sink_kind {
    SINK_PLAIN,  /* a file, or a pipe that is not blocking: write(2) */
    SINK_POLLED, /* could not be opened again: write(2) when there is room */
    SINK_SOCKET, /* as systemd's journal: send(2) has a flag for it */
};

static _Atomic int sink_fd = STDERR_FILENO;
static _Atomic int sink_kind = SINK_PLAIN;
static int caller_fd = -1; /* what sink_fd was made of */
static _Atomic bool torn;  /* a socket took the beginning of a line only */

static int open_again(int fd)
{
    char path[32];
    snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
    return open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
}

void log_sink_open(int fd)
{
    struct stat status;
    assert(fd >= 0);
    if (fd == caller_fd)
        return;
    if (caller_fd >= 0 && sink_fd != caller_fd)
        close(sink_fd);
    caller_fd = fd;
    sink_fd = fd;
    sink_kind = SINK_PLAIN;
    if (fstat(fd, &status) != 0 || S_ISREG(status.st_mode))
        return;
    if (S_ISSOCK(status.st_mode)) {
        sink_kind = SINK_SOCKET;
        return;
    }
    int own = open_again(fd);
    if (own >= 0)
        sink_fd = own;
    else
        sink_kind = SINK_POLLED;
}

bool log_sink_is_journal(int fd)
{
    struct stat status;
    unsigned long long device, inode;
    const char *stream = getenv("JOURNAL_STREAM"); /* device:inode, see systemd.exec(5) */
    return stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 && fstat(fd, &status) == 0 &&
           status.st_dev == device && status.st_ino == inode;
}

static ssize_t put(const char *text, size_t length)
{
    struct pollfd room = {.fd = sink_fd, .events = POLLOUT};
    if (sink_kind == SINK_SOCKET)
        return send(room.fd, text, length, MSG_DONTWAIT | MSG_NOSIGNAL);
    /* Room for a byte is room for a line: a pipe counts in pages. */
    if (sink_kind == SINK_POLLED && (poll(&room, 1, 0) != 1 || !(room.revents & POLLOUT)))
        return -1;
    return write(room.fd, text, length);
}

bool log_sink_write(const char *line, size_t length)
{
    assert(length > 0 && length <= PIPE_BUF);
    if (torn && put("\n", 1) == 1) /* the next line must not continue it */
        torn = false;
    if (torn)
        return false;
    ssize_t n;
    do
        n = put(line, length);
    while (n < 0 && errno == EINTR);
    if (n > 0 && (size_t)n < length)
        torn = true;
    return n == (ssize_t)length;
}

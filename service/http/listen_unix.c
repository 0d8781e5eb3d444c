/* A Unix socket to listen on: a file, which takes the place of one that a dead process left.
 *
 * why_rename: the socket is bound under a name of its own and renamed when it has its mode and
 * listens. So nobody connects before either is so, and no moment passes without the file.
 *
 * why_directory_lock: two processes that find the same dead socket must not replace it both. A lock
 * on the directory, held while one looks and renames, leaves no file behind. */
#include "service/http/listen_unix.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/config/endpoint.h"

enum {
    BACKLOG = 128,
    MODE = 0660,
    LOCK_TRIES = 20, /* for a directory that another process has locked */
    LOCK_PAUSE_MS = 50,
};

static_assert(ENDPOINT_PATH_SIZE + 12 <= (int)sizeof((struct sockaddr_un *)NULL)->sun_path,
              "a path with a process id behind it fits");

static struct sockaddr_un address_of(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
    return address;
}

static int socket_new(void)
{
    return socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
}

/* The directory of the path, locked; -1 with errno. Closing it ends the lock. */
static int lock_directory(const char *path)
{
    char copy[ENDPOINT_PATH_SIZE];
    snprintf(copy, sizeof copy, "%s", path);
    int directory = open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int tries = LOCK_TRIES;
    while (directory >= 0 && flock(directory, LOCK_EX | LOCK_NB) != 0) {
        if (errno != EWOULDBLOCK || --tries == 0) {
            int error = errno;
            close(directory);
            errno = error;
            return -1;
        }
        clock_sleep_ns(LOCK_PAUSE_MS * CLOCK_NS_PER_MS);
    }
    return directory;
}

/* NULL when the path is free, or holds a socket on which nobody listens; else why it is not. */
static const char *why_taken(const char *path)
{
    struct stat status;
    struct sockaddr_un address = address_of(path);
    if (lstat(path, &status) != 0)
        return errno == ENOENT ? NULL : strerror(errno);
    if (!S_ISSOCK(status.st_mode))
        return "a file that is no socket is there";
    int fd = socket_new();
    bool refused = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0 &&
                   errno == ECONNREFUSED;
    if (fd >= 0)
        close(fd);
    return refused ? NULL : "another process serves this socket";
}

/* Makes the listening socket under `name` and moves it to `path`. False with errno. */
static bool place(int fd, const char *name, const char *path)
{
    struct sockaddr_un address = address_of(name);
    unlink(name); /* of a process that had our number and died on the way */
    return bind(fd, (struct sockaddr *)&address, sizeof address) == 0 && chmod(name, MODE) == 0 &&
           listen(fd, BACKLOG) == 0 && rename(name, path) == 0;
}

/* The directory is locked. */
static int open_locked(const char *path, struct listen_unix *file_out, char *error_out,
                       size_t error_size)
{
    char name[ENDPOINT_PATH_SIZE + 12];
    struct stat status;
    const char *taken = why_taken(path);
    if (taken) {
        snprintf(error_out, error_size, "%s", taken);
        return -1;
    }
    snprintf(name, sizeof name, "%s.%d", path, (int)getpid());
    int fd = socket_new();
    if (fd >= 0 && place(fd, name, path) && lstat(path, &status) == 0) {
        *file_out = (struct listen_unix){path, status.st_dev, status.st_ino};
        return fd;
    }
    snprintf(error_out, error_size, "%s", strerror(errno));
    if (fd >= 0) {
        close(fd);
        unlink(name);
    }
    return -1;
}

int listen_unix_open(const char *path, struct listen_unix *file_out, char *error_out,
                     size_t error_size)
{
    *file_out = (struct listen_unix){.path = NULL};
    int directory = lock_directory(path);
    if (directory < 0) {
        snprintf(error_out, error_size, "its directory: %s", strerror(errno));
        return -1;
    }
    int fd = open_locked(path, file_out, error_out, error_size);
    close(directory);
    return fd;
}

void listen_unix_remove(struct listen_unix *file)
{
    struct stat status;
    if (file->path && lstat(file->path, &status) == 0 && status.st_dev == file->device &&
        status.st_ino == file->inode)
        unlink(file->path);
    file->path = NULL;
}

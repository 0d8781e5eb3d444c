/* A Unix socket to listen on: a file, which takes the place of one that a dead process left. */
#ifndef SECKILL_SERVICE_HTTP_LISTEN_UNIX_H
#define SECKILL_SERVICE_HTTP_LISTEN_UNIX_H

#include <stddef.h>
#include <sys/types.h>

/* The file of a listening socket, as it was made. */
struct listen_unix {
    const char *path; /* the caller's; NULL: none was made */
    dev_t device;
    ino_t inode;
};

/* Binds and listens on `path`, with mode 0660 from the first moment on. Replaces a socket on which
 * nobody listens any more; refuses to replace a file of another kind, and a socket that is served.
 * `path` must live until listen_unix_remove. Returns the socket, or -1 with the reason. */
int listen_unix_open(const char *path, struct listen_unix *file_out, char *error_out,
                     size_t error_size);

/* Removes the file, unless another process has put its own there. */
void listen_unix_remove(struct listen_unix *file);

#endif

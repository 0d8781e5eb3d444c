/* Private to lock/etcd/: watches, by which a waiter hears that a key was deleted.
 *
 * One thread of a client reads the streams of all its watches; it starts with the first one. */
#ifndef LOCK_ETCD_WATCH_H
#define LOCK_ETCD_WATCH_H

#include <stdbool.h>
#include <stdint.h>

struct etcd;
struct etcd_watches; /* a client's; any thread may use it */
struct etcd_stream;

enum { ETCD_WATCHES_MAX = 256 }; /* of a client, each with a connection of its own */

/* NULL: no memory. */
struct etcd_watches *etcd_watches_open(struct etcd *etcd);
void etcd_watches_close(struct etcd_watches **watches);

/* In a child of fork: closes the inherited descriptors of the watches, and leaks the rest. */
void etcd_watches_forget(struct etcd_watches *watches);

/* A wait for a key to go away. `fd` is readable once the key was deleted, or its stream is lost:
 * then look again, and begin another watch from there. */
struct etcd_watch {
    int fd;
    struct etcd_stream *stream;
};

/* Watches a key, given in base64, for deletions from a revision on. Returns at once, as the end
 * does. False: there are too many watches already, no descriptor, or no memory. */
bool etcd_watch_begin(struct etcd_watches *watches, struct etcd_watch *watch, const char *key64,
                      int64_t revision);
void etcd_watch_end(struct etcd_watches *watches, struct etcd_watch *watch);

#endif

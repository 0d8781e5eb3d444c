/* Private to lock/etcd/: keys that a thread deletes later, since their callers do not wait. */
#ifndef LOCK_ETCD_REMOVAL_H
#define LOCK_ETCD_REMOVAL_H

#include <sys/queue.h>

#include "lock/etcd/key.h"
#include "lock/etcd/lease.h"

/* Made beforehand, so that the removal of a key cannot fail for want of memory. */
struct etcd_removal {
    struct etcd_key key;
    struct etcd_lease *lease; /* the key's */
    int64_t due_ns;           /* of clock_now_ns */
    LIST_ENTRY(etcd_removal) in_list;
};

struct etcd_removals; /* a client's; any thread may use it */

/* The thread starts with the first removal. NULL: no memory. */
struct etcd_removals *etcd_removals_open(struct etcd *etcd, struct etcd_leases *leases,
                                         int timeout_ms);

/* Removals that are still due are left undone: their keys end with their leases. */
void etcd_removals_close(struct etcd_removals **removals);

/* Takes the removal and its user of the lease. Deletes the key after `wait_ns`, and tries again
 * until a server has answered or the lease has ended. */
void etcd_removal_begin(struct etcd_removals *removals, struct etcd_removal *removal,
                        int64_t wait_ns);

#endif

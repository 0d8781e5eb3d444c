/* Private to lock/etcd/: leases of etcd, which the holds of a client share.
 *
 * why_longer: a hold is valid for its own lease from the moment when it was asked for, and etcd's
 * lease runs since it was granted or kept alive. So etcd's lease is a quarter longer: as long as
 * that much of it has not passed, a hold begins without a further request. */
#ifndef LOCK_ETCD_LEASE_H
#define LOCK_ETCD_LEASE_H

#include "lock/seclock.h"

struct etcd;
struct etcd_leases; /* a client's; any thread may use it */
struct etcd_lease;  /* counts its users */

/* `key64` is a key, in base64, that the client may read. NULL: no memory. */
struct etcd_leases *etcd_leases_open(struct etcd *etcd, const char *key64, int64_t (*now_ns)(void));
void etcd_leases_close(struct etcd_leases **leases);

/* Gives a lease that goes on for at least `lease_ms` from now, by a new user. SECLOCK_OK, or
 * SECLOCK_FAILED: none could be had within `wait_ms`. */
enum seclock_result etcd_lease_take(struct etcd_leases *leases, int lease_ms, int wait_ms,
                                    struct etcd_lease **lease_out);

/* The same for keys that nobody keeps alive: the lease ends after a minute or two. */
enum seclock_result etcd_lease_take_brief(struct etcd_leases *leases, int wait_ms,
                                          struct etcd_lease **lease_out);

struct etcd_lease *etcd_lease_share(struct etcd_leases *leases, struct etcd_lease *lease);

/* Sets the pointer to NULL. The server's lease ends when nobody has kept it alive. */
void etcd_lease_drop(struct etcd_leases *leases, struct etcd_lease **lease);

/* Makes a lease go on for at least `lease_ms` from now; without a request if it does. SECLOCK_OK;
 * SECLOCK_LOST: it has ended, and its keys with it; SECLOCK_FAILED; SECLOCK_UNKNOWN. */
enum seclock_result etcd_lease_keep(struct etcd_leases *leases, struct etcd_lease *lease,
                                    int lease_ms, int wait_ms);

/* For who learns it from another request. */
void etcd_lease_ended(struct etcd_lease *lease);

int64_t etcd_lease_id(const struct etcd_lease *lease);

/* How long the lease goes on after the last request that kept it alive; and whether it has ended by
 * now, even if the server has never said so. */
int etcd_lease_ms(const struct etcd_lease *lease);
bool etcd_lease_over(const struct etcd_leases *leases, const struct etcd_lease *lease);

#endif

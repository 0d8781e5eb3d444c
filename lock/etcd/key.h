/* Private to lock/etcd/: the keys of a lock, and how a request's key is given up.
 *
 * A lock PREFIX.NAME has the keys
 *
 *   /seclock/PREFIX.NAME/read/REQUEST    a reader that has the lock or waits for it
 *   /seclock/PREFIX.NAME/write/REQUEST   a writer
 *   /seclock/PREFIX.NAME/ended/REQUEST   a request that was given up while a sending of it could
 *                                        still arrive: it then makes no key
 *
 * The value of the first two is the owner's text, and of a leader what it proclaims. */
#ifndef LOCK_ETCD_KEY_H
#define LOCK_ETCD_KEY_H

#include "lock/text.h"

struct etcd;
struct etcd_leases;

enum {
    ETCD_KEY_SIZE = LOCK_PATH_MAX + 8 + SECLOCK_TOKEN_MAX, /* bytes of a key, with its NUL */
    ETCD_KEY64_SIZE = (ETCD_KEY_SIZE + 2) / 3 * 4 + 1,     /* the same in base64 */
};

/* A request's key. Belongs to one thread at a time. */
struct etcd_key {
    const char *prefix; /* outlives the struct */
    char name[SECLOCK_NAME_MAX];
    char request[SECLOCK_TOKEN_MAX];
    enum seclock_mode mode;
    bool may_exist; /* it was made, or its making was sent */
    bool in_doubt;  /* a sending of its making may still arrive */
    bool deleting;  /* its deletion was sent, and no answer came */
};

/* Writes a text of up to ETCD_KEY_SIZE bytes as base64. */
void etcd_encode(const char *text, char text64_out[ETCD_KEY64_SIZE]);

/* Writes in base64 the request's key, and the one that says that the request has ended. */
void etcd_key_write(const struct etcd_key *key, char key64_out[ETCD_KEY64_SIZE]);
void etcd_key_write_ended(const struct etcd_key *key, char key64_out[ETCD_KEY64_SIZE]);

/* Writes in base64 from which key on and up to which one the keys of a lock lie: those of writers
 * alone, or of readers and writers. */
void etcd_key_range(const char *prefix, const char *name, bool writers_only,
                    char from64_out[ETCD_KEY64_SIZE], char to64_out[ETCD_KEY64_SIZE]);

/* Deletes the key, and keeps a late sending of its making from making it again. SECLOCK_OK;
 * SECLOCK_LOST: there was no such key (any more); SECLOCK_FAILED; SECLOCK_UNKNOWN. */
enum seclock_result etcd_key_end(struct etcd *etcd, struct etcd_leases *leases,
                                 struct etcd_key *key, int wait_ms);

#endif

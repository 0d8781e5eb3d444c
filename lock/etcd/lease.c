/* Grants leases of etcd and keeps them alive. */
#include "lock/etcd/lease.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "lock/etcd/http.h"
#include "lock/text.h"

enum {
    BRIEF_MS = 60000,
    BRIEF_S = 120,
    BODY_MAX = 1024,
    KEEP_TRIES_MAX = 2,
    SHARED_MAX = 64, /* lengths; leases of further ones have one user */
};

struct etcd_lease {
    int64_t id;
    int asked_s;
    _Atomic int granted_ms;
    _Atomic int64_t kept_ns; /* the sending of the last request that surely kept it alive */
    _Atomic bool ended;
    int users;
};

struct etcd_leases {
    struct etcd *etcd;
    int64_t (*now_ns)(void);
    char *key64;
    struct process_guard guard;
    pthread_mutex_t mutex;                 /* guards all below, and the numbers of users */
    struct etcd_lease *shared[SHARED_MAX]; /* of different lengths; NULL: none */
    struct etcd_lease *brief;
};

/* ---- users ---- */

/* The mutex is held. */
static void let_go(struct etcd_lease *lease)
{
    assert(lease->users > 0);
    if (--lease->users == 0)
        free(lease);
}

struct etcd_lease *etcd_lease_share(struct etcd_leases *leases, struct etcd_lease *lease)
{
    pthread_mutex_lock(&leases->mutex);
    assert(lease->users > 0);
    lease->users++;
    pthread_mutex_unlock(&leases->mutex);
    return lease;
}

void etcd_lease_drop(struct etcd_leases *leases, struct etcd_lease **lease)
{
    struct etcd_lease *mine = *lease;
    *lease = NULL;
    if (!mine)
        return;
    pthread_mutex_lock(&leases->mutex);
    let_go(mine);
    pthread_mutex_unlock(&leases->mutex);
}

/* ---- how long ---- */

int64_t etcd_lease_id(const struct etcd_lease *lease)
{
    return lease->id;
}

int etcd_lease_ms(const struct etcd_lease *lease)
{
    return lease->granted_ms;
}

void etcd_lease_ended(struct etcd_lease *lease)
{
    lease->ended = true;
}

bool etcd_lease_over(const struct etcd_leases *leases, const struct etcd_lease *lease)
{
    return lease->ended ||
           leases->now_ns() > lease->kept_ns + lease->granted_ms * CLOCK_NS_PER_MS * 2;
}

/* True when the lease goes on for so long from now. */
static bool goes_on(const struct etcd_leases *leases, const struct etcd_lease *lease, int lease_ms)
{
    return !lease->ended && lease->kept_ns + handle_valid_ns(lease->granted_ms) >=
                                leases->now_ns() + lease_ms * CLOCK_NS_PER_MS;
}

/* etcd counts whole seconds. */
static int seconds_for(int lease_ms)
{
    assert(lease_ms > 0);
    return (int)((lease_ms + (int64_t)lease_ms / 4 + 999) / 1000);
}

/* ---- requests ---- */

static int left_of(int64_t until_ms)
{
    int64_t left_ms = until_ms - clock_now_ms();
    return left_ms > 1 ? (int)left_ms : 1;
}

/* why_a_read_after: a leader that has been cut off, or whose disk stands still, goes on answering
 * keep-alives for a while, without asking anybody, when another leader already counts the lease
 * down. A read is answered only by agreement of the majority. If its answer is of the same term as
 * that to the keep-alive, the keep-alive has reached the leader of all. */
static enum seclock_result confirm_term(struct etcd_leases *leases, int64_t term, int64_t until_ms)
{
    char body[BODY_MAX];
    struct etcd_answer answer;
    snprintf(body, sizeof body, "{\"key\":\"%s\",\"count_only\":true}", leases->key64);
    enum seclock_result result =
        etcd_call(leases->etcd, "/v3/kv/range", body, left_of(until_ms), &answer);
    if (result == SECLOCK_OK && (term == 0 || etcd_header(&answer, "raft_term") != term))
        result = lock_fail(SECLOCK_FAILED, "etcd: the leader of the cluster has changed");
    etcd_answer_free(&answer);
    return result;
}

static enum seclock_result keep_once(struct etcd_leases *leases, struct etcd_lease *lease,
                                     int64_t until_ms)
{
    char body[BODY_MAX];
    struct etcd_answer answer;
    int64_t sent_ns = leases->now_ns(), term = 0;
    snprintf(body, sizeof body, "{\"ID\":\"%" PRId64 "\"}", lease->id);
    enum seclock_result result =
        etcd_call(leases->etcd, "/v3/lease/keepalive", body, left_of(until_ms), &answer);
    if (result == SECLOCK_OK) {
        struct etcd_answer inner = {.json = json_object_get(answer.json, "result")};
        int64_t ttl_s = etcd_number(inner.json, "TTL");
        term = etcd_header(&inner, "raft_term");
        if (ttl_s == 0)
            result = SECLOCK_LOST;
        else if (ttl_s * 1000 < lease->granted_ms)
            lease->granted_ms = (int)ttl_s * 1000;
    } else if (answer.code == ETCD_NOT_FOUND)
        result = SECLOCK_LOST;
    etcd_answer_free(&answer);
    if (result == SECLOCK_LOST)
        lease->ended = true;
    if (result != SECLOCK_OK)
        return result;
    result = confirm_term(leases, term, until_ms);
    if (result == SECLOCK_OK && lease->kept_ns < sent_ns)
        lease->kept_ns = sent_ns;
    return result;
}

enum seclock_result etcd_lease_keep(struct etcd_leases *leases, struct etcd_lease *lease,
                                    int lease_ms, int wait_ms)
{
    int64_t until_ms = clock_now_ms() + wait_ms;
    enum seclock_result result = SECLOCK_OK;
    if (lease->ended)
        return SECLOCK_LOST;
    for (int tries = 0; tries < KEEP_TRIES_MAX && !goes_on(leases, lease, lease_ms); tries++) {
        if (tries > 0 && clock_now_ms() >= until_ms)
            return SECLOCK_UNKNOWN;
        result = keep_once(leases, lease, until_ms);
        if (result == SECLOCK_LOST || result == SECLOCK_UNKNOWN)
            return result;
    }
    if (goes_on(leases, lease, lease_ms))
        return SECLOCK_OK;
    return result == SECLOCK_OK ? lock_fail(SECLOCK_FAILED, "etcd: its answer took too long")
                                : result;
}

/* Asks for a lease. NULL: not granted, with the reason in seclock_error; one that is granted
 * without an answer ends by itself. */
static struct etcd_lease *lease_grant(struct etcd_leases *leases, int seconds, int64_t until_ms)
{
    char body[BODY_MAX];
    struct etcd_answer answer;
    struct etcd_lease *lease = calloc(1, sizeof *lease);
    if (!lease) {
        lock_set_error("out of memory");
        return NULL;
    }
    lease->kept_ns = leases->now_ns();
    lease->asked_s = seconds;
    lease->users = 1;
    snprintf(body, sizeof body, "{\"TTL\":\"%d\"}", seconds);
    bool granted =
        etcd_call(leases->etcd, "/v3/lease/grant", body, left_of(until_ms), &answer) == SECLOCK_OK;
    int64_t ttl_s = etcd_number(answer.json, "TTL");
    lease->id = etcd_number(answer.json, "ID");
    etcd_answer_free(&answer);
    if (granted && (lease->id == 0 || ttl_s < seconds)) {
        lock_set_error("etcd: it grants no lease of %d s", seconds);
        granted = false;
    }
    lease->granted_ms = ttl_s < INT32_MAX / 1000 ? (int)ttl_s * 1000 : INT32_MAX;
    if (granted)
        return lease;
    free(lease);
    return NULL;
}

/* ---- sharing ---- */

/* why_not_asked: a client without holds keeps nothing alive. Its lease has then ended, or will, so
 * another is granted without asking. */
static bool is_stale(const struct etcd_leases *leases, const struct etcd_lease *lease)
{
    return lease->ended || leases->now_ns() > lease->kept_ns + lease->granted_ms * CLOCK_NS_PER_MS;
}

/* Returns the shared lease of that length, by a further user; NULL: there is none. */
static struct etcd_lease *find_shared(struct etcd_leases *leases, int seconds)
{
    struct etcd_lease *found = NULL;
    pthread_mutex_lock(&leases->mutex);
    for (size_t i = 0; i < SHARED_MAX && !found; i++)
        if (leases->shared[i] && leases->shared[i]->asked_s == seconds)
            found = leases->shared[i];
    if (found)
        found->users++;
    pthread_mutex_unlock(&leases->mutex);
    return found;
}

/* Takes a lease out of the table, which is its user, unless another thread has done so. */
static void stop_sharing(struct etcd_leases *leases, struct etcd_lease *lease)
{
    pthread_mutex_lock(&leases->mutex);
    for (size_t i = 0; i < SHARED_MAX; i++)
        if (leases->shared[i] == lease) {
            assert(lease->users > 1); /* the caller is another */
            lease->users--;
            leases->shared[i] = NULL;
        }
    pthread_mutex_unlock(&leases->mutex);
}

/* Enters a new lease. Of two that are granted at once, the first is shared, and the other one ends
 * with its only user. Makes room by forgetting leases that nobody uses any more. */
static void begin_sharing(struct etcd_leases *leases, struct etcd_lease *lease)
{
    struct etcd_lease **room = NULL;
    bool first = true;
    pthread_mutex_lock(&leases->mutex);
    for (struct etcd_lease **i = leases->shared; i < leases->shared + SHARED_MAX; i++) {
        if (*i && (*i)->users == 1 && is_stale(leases, *i)) {
            free(*i);
            *i = NULL;
        }
        if (!*i)
            room = i;
        else if ((*i)->asked_s == lease->asked_s)
            first = false;
    }
    if (first && room) {
        *room = lease;
        lease->users++;
    }
    pthread_mutex_unlock(&leases->mutex);
}

enum seclock_result etcd_lease_take(struct etcd_leases *leases, int lease_ms, int wait_ms,
                                    struct etcd_lease **lease_out)
{
    int64_t until_ms = clock_now_ms() + wait_ms;
    int seconds = seconds_for(lease_ms);
    struct etcd_lease *lease = find_shared(leases, seconds);
    enum seclock_result result = SECLOCK_LOST;
    *lease_out = NULL;
    if (lease && !is_stale(leases, lease))
        result = etcd_lease_keep(leases, lease, lease_ms, wait_ms);
    if (lease && result == SECLOCK_LOST)
        stop_sharing(leases, lease);
    if (result == SECLOCK_LOST) {
        etcd_lease_drop(leases, &lease);
        lease = lease_grant(leases, seconds, until_ms);
        result = lease ? SECLOCK_OK : SECLOCK_FAILED;
        if (lease)
            begin_sharing(leases, lease);
    }
    if (result == SECLOCK_OK && !goes_on(leases, lease, lease_ms))
        result = lock_fail(SECLOCK_FAILED, "etcd: its answer took too long");
    if (result != SECLOCK_OK)
        etcd_lease_drop(leases, &lease);
    *lease_out = lease;
    return result == SECLOCK_OK ? SECLOCK_OK : SECLOCK_FAILED;
}

enum seclock_result etcd_lease_take_brief(struct etcd_leases *leases, int wait_ms,
                                          struct etcd_lease **lease_out)
{
    struct etcd_lease *lease, *old = NULL;
    pthread_mutex_lock(&leases->mutex);
    lease = leases->brief;
    if (lease && goes_on(leases, lease, BRIEF_MS))
        lease->users++;
    else
        lease = NULL;
    pthread_mutex_unlock(&leases->mutex);
    *lease_out = lease;
    if (lease)
        return SECLOCK_OK;
    lease = lease_grant(leases, BRIEF_S, clock_now_ms() + wait_ms);
    if (!lease)
        return SECLOCK_FAILED;
    pthread_mutex_lock(&leases->mutex);
    lease->users++;
    old = leases->brief;
    leases->brief = lease;
    if (old)
        let_go(old);
    pthread_mutex_unlock(&leases->mutex);
    *lease_out = lease;
    return SECLOCK_OK;
}

/* ---- open and close ---- */

struct etcd_leases *etcd_leases_open(struct etcd *etcd, const char *key64, int64_t (*now_ns)(void))
{
    struct etcd_leases *leases = calloc(1, sizeof *leases);
    if (leases)
        leases->key64 = strdup(key64);
    if (!leases || !leases->key64) {
        free(leases);
        return NULL;
    }
    leases->etcd = etcd;
    leases->now_ns = now_ns;
    process_guard(&leases->guard, &leases->mutex);
    return leases;
}

void etcd_leases_close(struct etcd_leases **leases)
{
    struct etcd_leases *old = *leases;
    *leases = NULL;
    if (!old)
        return;
    etcd_lease_drop(old, &old->brief);
    for (size_t i = 0; i < SHARED_MAX; i++) {
        assert(!old->shared[i] || old->shared[i]->users == 1); /* the table */
        free(old->shared[i]);
    }
    process_unguard(&old->guard);
    free(old->key64);
    free(old);
}

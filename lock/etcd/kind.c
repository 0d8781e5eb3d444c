/* Locks by keys of an etcd cluster: many readers or one writer, first come, first served. */
#include <assert.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/client.h"
#include "lock/etcd/http.h"
#include "lock/etcd/key.h"
#include "lock/etcd/lease.h"
#include "lock/etcd/removal.h"
#include "lock/etcd/watch.h"
#include "lock/text.h"

/* the_queue: each caller that wants the lock makes a key of its own under the lock's, with its id
 * in the name, so that a repeat finds it. The revision that made a key is its place in the queue,
 * and the fence. A writer has the lock when no older key is there, a reader when no older one of a
 * writer is. Who waits watches the newest of those older keys, so that a deletion wakes one waiter.
 *
 * One transaction makes the key and reads the one ahead. Of a single try it makes the key only when
 * there is none ahead, so a busy lock costs one request and leaves nothing behind.
 *
 * Keys end with a lease that the holds of a client share (lease.h). So a key whose hold ends sooner
 * than the lease, or whose deletion nobody waits for, is deleted by a thread (removal.h). */

enum {
    RENEWAL_MS_MIN = 50,  /* for the answer to a renewal, even if a hold is about to end */
    RENEWED_AT_ONCE = 64, /* keys of one transaction; etcd allows 128 operations */
    READERS_MAX = 256,    /* that an operator's request looks at */
    BODY_MAX = 12 * ETCD_KEY64_SIZE,
    VALUE_SIZE = SECLOCK_TOKEN_MAX + 17 + SECLOCK_LEADER_VALUE_MAX, /* of a key */
    VALUE64_SIZE = (VALUE_SIZE + 2) / 3 * 4 + 4,
};

struct etcd_kind {
    struct etcd *etcd;
    struct etcd_leases *leases;
    struct etcd_watches *watches;
    struct etcd_removals *removals;
    char prefix[SECLOCK_PREFIX_MAX];
    int timeout_ms;
    struct process_guard guard;
    pthread_mutex_t mutex; /* guards the claims' removals */
};

/* What the driver knows of a request for a lock: handle->driver_data. */
struct claim {
    struct etcd_key key;
    struct etcd_lease *lease; /* the key's; NULL: none yet */
    int64_t revision;         /* that made the key; 0: it is not known to exist */
    int64_t ahead;            /* the same of the key that is watched */
    bool watching;
    struct etcd_watch watch;
    bool gives_up;                /* its caller no longer waits: it holds nothing */
    bool over;                    /* its key is certainly gone */
    struct etcd_removal *removal; /* NULL: begun */
};

/* ---- claims ---- */

static struct claim *claim_new(const struct etcd_kind *kind, const struct seclock_handle *handle)
{
    struct claim *claim = calloc(1, sizeof *claim);
    if (!claim)
        return NULL;
    claim->removal = calloc(1, sizeof *claim->removal);
    if (!claim->removal) {
        free(claim);
        return NULL;
    }
    claim->key.prefix = kind->prefix;
    claim->key.mode = handle->mode;
    strcpy(claim->key.name, handle->name);
    strcpy(claim->key.request, handle->request);
    return claim;
}

static void watch_stop(const struct etcd_kind *kind, struct claim *claim)
{
    if (claim->watching)
        etcd_watch_end(kind->watches, &claim->watch);
    claim->watching = false;
}

/* Leaves the key to the thread that deletes keys. */
static void delete_later(struct etcd_kind *kind, struct claim *claim, int64_t wait_ns)
{
    pthread_mutex_lock(&kind->mutex);
    struct etcd_removal *removal = claim->removal;
    bool needed = removal && claim->lease && claim->key.may_exist && !claim->over;
    if (needed)
        claim->removal = NULL;
    pthread_mutex_unlock(&kind->mutex);
    if (!needed)
        return;
    removal->key = claim->key;
    removal->lease = etcd_lease_share(kind->leases, claim->lease);
    etcd_removal_begin(kind->removals, removal, wait_ns);
}

static void claim_free(struct etcd_kind *kind, struct claim *claim)
{
    watch_stop(kind, claim);
    etcd_lease_drop(kind->leases, &claim->lease);
    free(claim->removal);
    free(claim);
}

static int request_ms(const struct etcd_kind *kind, const struct seclock_handle *handle)
{
    return handle_request_ms(handle, kind->timeout_ms);
}

/* ---- one try ---- */

/* Gives the claim a lease that bears a whole hold from now. A key of an earlier try keeps its
 * lease, unless that has ended, and the key with it. */
static enum seclock_result claim_lease(struct etcd_kind *kind, struct claim *claim,
                                       const struct seclock_handle *handle)
{
    int lease_ms = handle->lease_ms;
    enum seclock_result result = SECLOCK_LOST;
    if (claim->lease)
        result = etcd_lease_keep(kind->leases, claim->lease, lease_ms, request_ms(kind, handle));
    if (result == SECLOCK_LOST) {
        etcd_lease_drop(kind->leases, &claim->lease);
        claim->revision = 0;
        result = etcd_lease_take(kind->leases, lease_ms, request_ms(kind, handle), &claim->lease);
    }
    return result == SECLOCK_OK ? SECLOCK_OK : SECLOCK_FAILED;
}

/* Writes a range of the key right ahead of a revision: of all keys that exclude the claim the
 * newest; 0: of all. */
static int write_ahead(const struct claim *claim, int64_t revision, char *body, size_t size)
{
    char from64[ETCD_KEY64_SIZE], to64[ETCD_KEY64_SIZE], older[64] = "";
    etcd_key_range(claim->key.prefix, claim->key.name, claim->key.mode == SECLOCK_MODE_READ, from64,
                   to64);
    if (revision > 0)
        snprintf(older, sizeof older, "\"max_create_revision\":\"%" PRId64 "\",", revision - 1);
    int length = snprintf(body, size,
                          "{\"request_range\":{\"key\":\"%s\",\"range_end\":\"%s\",%s"
                          "\"keys_only\":true,\"limit\":\"1\",\"sort_target\":\"CREATE\","
                          "\"sort_order\":\"DESCEND\"}}",
                          from64, to64, older);
    assert(length < (int)size);
    return length;
}

/* Writes on which condition the key is made: a waiter's if it is not there, that of a single try if
 * none is there that excludes the claim. A writer is excluded by its own key as well. */
static void write_condition(const struct claim *claim, bool waits, const char *key64, char *text,
                            size_t size)
{
    char from64[ETCD_KEY64_SIZE], to64[ETCD_KEY64_SIZE];
    bool reads = claim->key.mode == SECLOCK_MODE_READ;
    int length = 0;
    if (waits || reads)
        length = snprintf(text, size, ",{\"target\":\"CREATE\",\"key\":\"%s\"}", key64);
    etcd_key_range(claim->key.prefix, claim->key.name, reads, from64, to64);
    if (!waits)
        length +=
            snprintf(text + length, size - (size_t)length,
                     ",{\"target\":\"CREATE\",\"key\":\"%s\",\"range_end\":\"%s\"}", from64, to64);
    assert(length < (int)size);
}

/* Writes the transaction that makes the key, unless the request has ended. A waiter reads the key
 * ahead first. */
static void write_making(const struct claim *claim, const struct seclock_handle *handle, char *body,
                         size_t size)
{
    char key64[ETCD_KEY64_SIZE], ended64[ETCD_KEY64_SIZE], owner64[ETCD_KEY64_SIZE];
    char condition[4 * ETCD_KEY64_SIZE], ahead[3 * ETCD_KEY64_SIZE];
    ahead[0] = '\0';
    etcd_key_write(&claim->key, key64);
    etcd_key_write_ended(&claim->key, ended64);
    etcd_encode(handle->owner, owner64);
    write_condition(claim, handle->waits, key64, condition, sizeof condition);
    if (handle->waits)
        strcpy(ahead + write_ahead(claim, 0, ahead, sizeof ahead - 1), ",");
    int length =
        snprintf(body, size,
                 "{\"compare\":[{\"target\":\"CREATE\",\"key\":\"%s\"}%s],"
                 "\"success\":[%s{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\","
                 "\"lease\":\"%" PRId64 "\"}}],"
                 "\"failure\":[{\"request_range\":{\"key\":\"%s\",\"keys_only\":true}}]}",
                 ended64, condition, ahead, key64, owner64, etcd_lease_id(claim->lease), key64);
    assert(length < (int)size);
}

static bool succeeded(const struct etcd_answer *answer)
{
    return json_is_true(json_object_get(answer->json, "succeeded"));
}

/* The first range of a transaction: its first key. */
static const json_t *first_key(const struct etcd_answer *answer)
{
    return etcd_first_key(etcd_response(answer->json, 0, "response_range"));
}

/* Watches the key ahead for its deletion after the answer that showed it. An older watch of the
 * same key goes on, unless it has told something. */
static void watch_start(struct etcd_kind *kind, struct claim *claim,
                        const struct etcd_answer *answer)
{
    const json_t *ahead = first_key(answer);
    const char *key64 = json_string_value(json_object_get(ahead, "key"));
    int64_t revision = etcd_number(ahead, "create_revision");
    struct pollfd told = {.fd = claim->watching ? claim->watch.fd : -1, .events = POLLIN};
    if (claim->watching && claim->ahead == revision && poll(&told, 1, 0) == 0)
        return;
    watch_stop(kind, claim);
    if (!key64 || strlen(key64) >= ETCD_KEY64_SIZE ||
        key64[strspn(key64, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=")])
        return; /* then the waiter asks now and then */
    claim->ahead = revision;
    claim->watching =
        etcd_watch_begin(kind->watches, &claim->watch, key64, etcd_header(answer, "revision") + 1);
}

/* SECLOCK_OK: the claim has the lock; SECLOCK_BUSY: it waits behind the key that the answer shows.
 * */
static enum seclock_result take_place(struct etcd_kind *kind, struct claim *claim,
                                      const struct etcd_answer *answer)
{
    if (!first_key(answer))
        return SECLOCK_OK;
    watch_start(kind, claim, answer);
    return SECLOCK_BUSY;
}

/* Takes the answer of a transaction that made no key: one is there already, made by an earlier
 * sending, or the lock was busy. SECLOCK_LOST: the request has ended. */
static enum seclock_result take_refusal(struct claim *claim, const struct seclock_handle *handle,
                                        const struct etcd_answer *answer)
{
    const json_t *own = first_key(answer);
    if (!own && !handle->waits) {
        claim->key.may_exist = claim->key.in_doubt;
        return SECLOCK_BUSY;
    }
    claim->revision = etcd_number(own, "create_revision");
    if (claim->revision > 0 && etcd_number(own, "lease") == etcd_lease_id(claim->lease))
        return SECLOCK_OK;
    claim->revision = 0; /* it ends with a former lease */
    return lock_fail(SECLOCK_FAILED, own ? "etcd: a key of this request is about to end"
                                         : "etcd: the request was given up before");
}

/* Sends the transaction that makes the key. SECLOCK_OK, SECLOCK_BUSY; `known_out`: of a waiter's
 * key that was there already the place is not known yet. */
static enum seclock_result claim_make(struct etcd_kind *kind, struct claim *claim,
                                      const struct seclock_handle *handle, bool *known_out)
{
    char body[BODY_MAX];
    struct etcd_answer answer;
    bool existed = claim->key.may_exist;
    *known_out = true;
    write_making(claim, handle, body, sizeof body);
    claim->key.may_exist = true; /* a lapse may come from now on */
    enum seclock_result result =
        etcd_call(kind->etcd, "/v3/kv/txn", body, request_ms(kind, handle), &answer);
    claim->key.in_doubt = claim->key.in_doubt || answer.in_doubt;
    if (result == SECLOCK_OK && succeeded(&answer)) {
        claim->revision = etcd_header(&answer, "revision");
        result = handle->waits ? take_place(kind, claim, &answer) : SECLOCK_OK;
    } else if (result == SECLOCK_OK) {
        result = take_refusal(claim, handle, &answer);
        *known_out = result != SECLOCK_OK || !handle->waits;
    } else if (result == SECLOCK_FAILED)
        claim->key.may_exist = existed;
    if (answer.code == ETCD_NOT_FOUND)
        etcd_lease_ended(claim->lease);
    etcd_answer_free(&answer);
    return result;
}

/* Looks where in the queue the waiter's key is. SECLOCK_LOST: it is gone. */
static enum seclock_result claim_look(struct etcd_kind *kind, struct claim *claim,
                                      const struct seclock_handle *handle)
{
    char key64[ETCD_KEY64_SIZE], ahead[3 * ETCD_KEY64_SIZE], body[BODY_MAX];
    struct etcd_answer answer;
    etcd_key_write(&claim->key, key64);
    write_ahead(claim, claim->revision, ahead, sizeof ahead);
    snprintf(body, sizeof body,
             "{\"compare\":[{\"target\":\"CREATE\",\"key\":\"%s\",\"create_revision\":\"%" PRId64
             "\"}],\"success\":[%s]}",
             key64, claim->revision, ahead);
    enum seclock_result result =
        etcd_call(kind->etcd, "/v3/kv/txn", body, request_ms(kind, handle), &answer);
    if (result == SECLOCK_OK && succeeded(&answer))
        result = take_place(kind, claim, &answer);
    else if (result == SECLOCK_OK) {
        claim->revision = 0;
        result = SECLOCK_LOST;
    } else
        result = SECLOCK_FAILED; /* a look takes nothing */
    etcd_answer_free(&answer);
    return result;
}

/* why_once_more: a key can be gone because its lease has ended, or an operator has deleted it; and
 * a lease that another thread learns to have ended is found out here. */
static enum seclock_result claim_try(struct etcd_kind *kind, struct claim *claim,
                                     const struct seclock_handle *handle)
{
    enum seclock_result result = SECLOCK_LOST;
    for (int tries = 0; tries < 2 && result == SECLOCK_LOST; tries++) {
        bool known = false;
        result = claim_lease(kind, claim, handle);
        if (result != SECLOCK_OK)
            return result;
        if (claim->revision == 0)
            result = claim_make(kind, claim, handle, &known);
        if (result == SECLOCK_OK && !known)
            result = claim_look(kind, claim, handle);
        if (result == SECLOCK_FAILED && etcd_lease_over(kind->leases, claim->lease))
            result = SECLOCK_LOST;
    }
    return result == SECLOCK_LOST
               ? lock_fail(SECLOCK_FAILED, "etcd: the key of this request ends at once")
               : result;
}

/* ---- the driver ---- */

static void etcd_kind_close(void *self)
{
    struct etcd_kind *kind = self;
    etcd_watches_close(&kind->watches);
    etcd_removals_close(&kind->removals);
    etcd_leases_close(&kind->leases);
    etcd_close(&kind->etcd);
    process_unguard(&kind->guard);
    free(kind);
}

static enum seclock_result etcd_kind_open(struct lock_core *core, const char *server,
                                          void **self_out)
{
    char path[LOCK_PATH_MAX], path64[ETCD_KEY64_SIZE];
    struct etcd_kind *kind = calloc(1, sizeof *kind);
    if (!kind)
        return lock_fail(SECLOCK_FAILED, "out of memory");
    process_guard(&kind->guard, &kind->mutex);
    strcpy(kind->prefix, core->options.prefix);
    kind->timeout_ms = core->options.timeout_ms;
    enum seclock_result result = etcd_open(core, server, &kind->etcd);
    if (result == SECLOCK_OK) {
        lock_path(kind->prefix, "", path); /* the beginning of all locks under this prefix */
        etcd_encode(path, path64);
        kind->leases = etcd_leases_open(kind->etcd, path64, core->options.now_ns);
        kind->watches = etcd_watches_open(kind->etcd);
    }
    if (kind->leases)
        kind->removals = etcd_removals_open(kind->etcd, kind->leases, kind->timeout_ms);
    if (result == SECLOCK_OK && (!kind->watches || !kind->removals))
        result = lock_fail(SECLOCK_FAILED, "out of memory");
    if (result == SECLOCK_OK)
        *self_out = kind;
    else
        etcd_kind_close(kind);
    return result;
}

static void etcd_kind_forget(void *self)
{
    struct etcd_kind *kind = self;
    etcd_watches_forget(kind->watches);
    etcd_forget(kind->etcd);
}

static enum seclock_result etcd_acquire(void *self, struct seclock_handle *handle)
{
    struct etcd_kind *kind = self;
    struct claim *claim = handle->driver_data;
    handle->busy_ms = -1;
    if (!claim)
        claim = claim_new(kind, handle);
    if (!claim)
        return lock_fail(SECLOCK_FAILED, "out of memory");
    handle->driver_data = claim;
    enum seclock_result result = claim_try(kind, claim, handle);
    if (result != SECLOCK_OK)
        return result;
    watch_stop(kind, claim);
    handle->fence = (uint64_t)claim->revision;
    handle->hold_count = 1;
    return SECLOCK_OK;
}

/* Sleeps for at most a third of the lease, since only tries keep a waiter's key alive. */
static int etcd_wait_fd(const struct seclock_handle *handle, int *wait_ms)
{
    const struct claim *claim = handle->driver_data;
    int most_ms = claim->lease ? etcd_lease_ms(claim->lease) / 3 : *wait_ms;
    *wait_ms = *wait_ms < most_ms ? *wait_ms : most_ms;
    return claim->watching ? claim->watch.fd : -1;
}

/* Deletes the key at once if it can, because others wait behind it. */
static void etcd_stop_waiting(void *self, struct seclock_handle *handle, bool acquired)
{
    struct etcd_kind *kind = self;
    struct claim *claim = handle->driver_data;
    if (!claim)
        return;
    watch_stop(kind, claim);
    if (acquired)
        return;
    claim->gives_up = true;
    enum seclock_result result =
        etcd_key_end(kind->etcd, kind->leases, &claim->key, request_ms(kind, handle));
    claim->over = result == SECLOCK_OK || result == SECLOCK_LOST;
    delete_later(kind, claim, 0);
}

/* Applies the answer about one key of a renewal. An acquisition that was not answered has got the
 * lock if its key is there, since a single try makes none that waits. */
static enum seclock_result renewed(struct claim *claim, struct seclock_handle *handle,
                                   const json_t *range)
{
    const json_t *key = etcd_first_key(range);
    int64_t revision = etcd_number(key, "create_revision");
    if (revision == 0 || (claim->revision != 0 && claim->revision != revision) ||
        etcd_number(key, "lease") != etcd_lease_id(claim->lease))
        return SECLOCK_LOST;
    claim->revision = revision;
    handle->fence = (uint64_t)revision;
    return SECLOCK_OK;
}

static void fill(enum seclock_result *results, size_t count, enum seclock_result result)
{
    for (size_t i = 0; i < count; i++)
        results[i] = result;
}

/* Asks whether the keys of these holds are still there, after their leases were kept alive. Sets
 * the results if it is SECLOCK_OK, else SECLOCK_FAILED or SECLOCK_UNKNOWN. */
static enum seclock_result renew_keys(struct etcd_kind *kind, struct seclock_handle *const *handles,
                                      size_t count, enum seclock_result *results_out)
{
    static const char head[] = "{\"success\":[", tail[] = "]}";
    char key64[ETCD_KEY64_SIZE];
    char *body = malloc(sizeof head + sizeof tail + count * (sizeof key64 + 64)), *at = body;
    struct etcd_answer answer;
    fill(results_out, count, SECLOCK_FAILED);
    if (!body)
        return lock_fail(SECLOCK_FAILED, "out of memory");
    at = stpcpy(at, head);
    for (size_t i = 0; i < count; i++) {
        const struct claim *claim = handles[i]->driver_data;
        etcd_key_write(&claim->key, key64);
        at += sprintf(at, "%s{\"request_range\":{\"key\":\"%s\",\"keys_only\":true}}",
                      i > 0 ? "," : "", key64);
    }
    strcpy(at, tail);
    int wait_ms = handle_renewal_ms(handles, count, RENEWAL_MS_MIN, kind->timeout_ms);
    enum seclock_result result = etcd_call(kind->etcd, "/v3/kv/txn", body, wait_ms, &answer);
    fill(results_out, count, result);
    for (size_t i = 0; i < count && result == SECLOCK_OK; i++)
        results_out[i] = renewed(handles[i]->driver_data, handles[i],
                                 etcd_response(answer.json, i, "response_range"));
    etcd_answer_free(&answer);
    free(body);
    return result;
}

/* Keeps the lease of a hold alive; without a request when an earlier hold of the batch shares it.
 * */
static enum seclock_result renew_lease(struct etcd_kind *kind, struct seclock_handle *handle,
                                       int wait_ms)
{
    const struct claim *claim = handle->driver_data;
    if (!claim || claim->gives_up || claim->over || !claim->lease || !claim->key.may_exist)
        return SECLOCK_LOST;
    return etcd_lease_keep(kind->leases, claim->lease, handle->lease_ms, wait_ms);
}

/* Renews up to RENEWED_AT_ONCE holds. Returns SECLOCK_OK, or the result of the first request that
 * was not answered: the others would not be answered either. */
static enum seclock_result renew_some(struct etcd_kind *kind, struct seclock_handle *const *handles,
                                      size_t count, enum seclock_result *results_out)
{
    struct seclock_handle *kept[RENEWED_AT_ONCE];
    enum seclock_result results[RENEWED_AT_ONCE], silence = SECLOCK_OK;
    size_t places[RENEWED_AT_ONCE], kept_count = 0;
    assert(count <= RENEWED_AT_ONCE);
    for (size_t i = 0; i < count; i++) {
        int wait_ms = handle_renewal_ms(handles, count, RENEWAL_MS_MIN, kind->timeout_ms);
        results_out[i] = silence != SECLOCK_OK ? silence : renew_lease(kind, handles[i], wait_ms);
        if (results_out[i] == SECLOCK_OK) {
            places[kept_count] = i;
            kept[kept_count++] = handles[i];
        } else if (results_out[i] != SECLOCK_LOST)
            silence = results_out[i];
    }
    if (kept_count > 0 && silence == SECLOCK_OK)
        silence = renew_keys(kind, kept, kept_count, results);
    else
        fill(results, kept_count, silence);
    for (size_t i = 0; i < kept_count; i++)
        results_out[places[i]] = results[i];
    return silence;
}

static void etcd_renew(void *self, struct seclock_handle *const *handles, size_t count,
                       enum seclock_result *results_out)
{
    enum seclock_result silence = SECLOCK_OK;
    for (size_t done = 0, some; done < count; done += some) {
        some = count - done < RENEWED_AT_ONCE ? count - done : RENEWED_AT_ONCE;
        if (silence == SECLOCK_OK)
            silence = renew_some(self, handles + done, some, results_out + done);
        else
            fill(results_out + done, some, silence);
    }
}

/* Reads the answer to a proclamation that changed nothing. */
static enum seclock_result proclaimed_before(const struct claim *claim, const char *value64,
                                             const struct etcd_answer *answer)
{
    const json_t *key = first_key(answer);
    const char *present = json_string_value(json_object_get(key, "value"));
    if (etcd_number(key, "create_revision") != claim->revision)
        return SECLOCK_LOST;
    return present && strcmp(present, value64) == 0
               ? SECLOCK_OK
               : lock_fail(SECLOCK_FAILED, "etcd: a later proclamation came first");
}

/* The value of a leader's key is its owner, the number of the proclamation, and what it proclaims:
 * so of two values of one key the later is the greater one. */
static enum seclock_result write_value(struct etcd_kind *kind, const struct claim *claim,
                                       const struct seclock_handle *handle)
{
    char key64[ETCD_KEY64_SIZE], value[VALUE_SIZE], value64[ETCD_KEY64_SIZE], body[BODY_MAX];
    struct etcd_answer answer;
    snprintf(value, sizeof value, "%s %016" PRIx64 " %s", handle->owner, handle->value_number,
             handle->value);
    etcd_key_write(&claim->key, key64);
    etcd_encode(value, value64);
    int length = snprintf(
        body, sizeof body,
        "{\"compare\":[{\"target\":\"CREATE\",\"key\":\"%s\",\"create_revision\":\"%" PRId64
        "\"},{\"target\":\"VALUE\",\"result\":\"LESS\",\"key\":\"%s\",\"value\":\"%s\"}],"
        "\"success\":[{\"request_put\":{\"key\":\"%s\",\"value\":\"%s\",\"lease\":\"%" PRId64
        "\"}}],\"failure\":[{\"request_range\":{\"key\":\"%s\"}}]}",
        key64, claim->revision, key64, value64, key64, value64, etcd_lease_id(claim->lease), key64);
    assert(length < (int)sizeof body);
    enum seclock_result result =
        etcd_call(kind->etcd, "/v3/kv/txn", body, kind->timeout_ms, &answer);
    if (result == SECLOCK_OK && !succeeded(&answer))
        result = proclaimed_before(claim, value64, &answer);
    if (answer.code == ETCD_NOT_FOUND)
        etcd_lease_ended(claim->lease);
    etcd_answer_free(&answer);
    return result;
}

static enum seclock_result etcd_proclaim(void *self, struct seclock_handle *handle)
{
    struct etcd_kind *kind = self;
    enum seclock_result result = renew_lease(kind, handle, kind->timeout_ms);
    if (result == SECLOCK_OK)
        return write_value(kind, handle->driver_data, handle);
    return result == SECLOCK_UNKNOWN ? SECLOCK_FAILED : result; /* nothing is proclaimed yet */
}

static enum seclock_result etcd_release(void *self, struct seclock_handle *handle)
{
    struct etcd_kind *kind = self;
    struct claim *claim = handle->driver_data;
    if (!claim || claim->over)
        return SECLOCK_LOST;
    enum seclock_result result =
        etcd_key_end(kind->etcd, kind->leases, &claim->key, request_ms(kind, handle));
    claim->over = result == SECLOCK_OK || result == SECLOCK_LOST;
    return result;
}

/* The lease goes on when one of its holds is lost, and the key would keep everybody out. */
static void etcd_lapse(void *self, struct seclock_handle *handle)
{
    struct claim *claim = handle->driver_data;
    if (claim)
        delete_later(self, claim, 0);
}

/* A hold that is freed and not released ends with its own lease. */
static void etcd_drop(void *self, struct seclock_handle *handle)
{
    struct etcd_kind *kind = self;
    struct claim *claim = handle->driver_data;
    if (!claim)
        return;
    int64_t wait_ns = 0;
    enum seclock_state state = seclock_state(handle);
    if ((state == SECLOCK_STATE_HELD || state == SECLOCK_STATE_UNKNOWN) && !claim->key.deleting)
        wait_ns = handle->deadline_ns - handle->now_ns();
    delete_later(kind, claim, wait_ns);
    handle->driver_data = NULL;
    claim_free(kind, claim);
}

/* ---- for operators ---- */

/* The queue of a lock: who is first, and how many keys there are. */
struct queue_state {
    bool held;
    enum seclock_mode mode; /* of the holder, or of the holders if they read */
    int64_t keys, holders;
    int64_t first_revision, last_revision; /* of the holders */
    char first64[ETCD_KEY64_SIZE];         /* the key of the first */
    char value64[VALUE64_SIZE];            /* its value */
    int64_t writer_revision;               /* of the first writer; 0: none */
};

/* Copies a text of the answer if it fits and can stand in JSON as it is. */
static void copy_text(const json_t *object, const char *name, char *out, size_t size)
{
    const char *text = json_string_value(json_object_get(object, name));
    bool good = text && strlen(text) < size && !strpbrk(text, "\"\\");
    snprintf(out, size, "%s", good ? text : "");
}

static enum seclock_result read_first(struct etcd_kind *kind, const char *name,
                                      struct queue_state *state)
{
    char from64[ETCD_KEY64_SIZE], writers64[ETCD_KEY64_SIZE], to64[ETCD_KEY64_SIZE];
    char body[BODY_MAX];
    struct etcd_answer answer;
    etcd_key_range(kind->prefix, name, true, writers64, to64);
    etcd_key_range(kind->prefix, name, false, from64, to64);
    snprintf(body, sizeof body,
             "{\"success\":["
             "{\"request_range\":{\"key\":\"%s\",\"range_end\":\"%s\",\"limit\":\"1\","
             "\"sort_target\":\"CREATE\",\"sort_order\":\"ASCEND\"}},"
             "{\"request_range\":{\"key\":\"%s\",\"range_end\":\"%s\",\"limit\":\"1\","
             "\"sort_target\":\"CREATE\",\"sort_order\":\"ASCEND\",\"keys_only\":true}}]}",
             from64, to64, writers64, to64);
    enum seclock_result result =
        etcd_call(kind->etcd, "/v3/kv/txn", body, kind->timeout_ms, &answer);
    const json_t *all = etcd_response(answer.json, 0, "response_range");
    const json_t *first = etcd_first_key(all);
    const json_t *writer = etcd_first_key(etcd_response(answer.json, 1, "response_range"));
    *state = (struct queue_state){.held = first != NULL, .keys = etcd_number(all, "count")};
    state->first_revision = state->last_revision = etcd_number(first, "create_revision");
    state->writer_revision = etcd_number(writer, "create_revision");
    state->holders = 1;
    state->mode =
        state->first_revision == state->writer_revision ? SECLOCK_MODE_WRITE : SECLOCK_MODE_READ;
    copy_text(first, "key", state->first64, sizeof state->first64);
    copy_text(first, "value", state->value64, sizeof state->value64);
    etcd_answer_free(&answer);
    return result;
}

/* Reads the keys of the readers that have the lock: those older than the first writer. */
static enum seclock_result read_readers(struct etcd_kind *kind, const char *name,
                                        const struct queue_state *state, struct etcd_answer *answer)
{
    char from64[ETCD_KEY64_SIZE], writers64[ETCD_KEY64_SIZE], to64[ETCD_KEY64_SIZE];
    char body[BODY_MAX], older[64] = "";
    etcd_key_range(kind->prefix, name, true, writers64, to64);
    etcd_key_range(kind->prefix, name, false, from64, to64);
    if (state->writer_revision > 0)
        snprintf(older, sizeof older, ",\"max_create_revision\":\"%" PRId64 "\"",
                 state->writer_revision - 1);
    snprintf(body, sizeof body,
             "{\"key\":\"%s\",\"range_end\":\"%s\",\"keys_only\":true,\"limit\":\"%d\"%s}", from64,
             writers64, READERS_MAX, older);
    return etcd_call(kind->etcd, "/v3/kv/range", body, kind->timeout_ms, answer);
}

/* Finds out who has the lock. */
static enum seclock_result read_state(struct etcd_kind *kind, const char *name,
                                      struct queue_state *state, struct etcd_answer *readers_out)
{
    *readers_out = (struct etcd_answer){.json = NULL};
    enum seclock_result result = read_first(kind, name, state);
    if (result != SECLOCK_OK || !state->held || state->mode == SECLOCK_MODE_WRITE)
        return result;
    result = read_readers(kind, name, state, readers_out);
    const json_t *keys = json_object_get(readers_out->json, "kvs");
    if (json_array_size(keys) > 0)
        state->holders = (int64_t)json_array_size(keys);
    for (size_t i = 0; i < json_array_size(keys); i++) {
        int64_t revision = etcd_number(json_array_get(keys, i), "create_revision");
        if (revision > state->last_revision)
            state->last_revision = revision;
    }
    return result;
}

/* Base64 whose length is no multiple of four, or which is not base64, gives an empty text; padding
 * gives a NUL. */
static void decode(const char *value64, char value_out[VALUE64_SIZE])
{
    int length = EVP_DecodeBlock((unsigned char *)value_out, (const unsigned char *)value64,
                                 (int)strlen(value64));
    value_out[length > 0 ? length : 0] = '\0';
}

static enum seclock_result etcd_status(const struct lock_driver *driver, void *self,
                                       const char *name, struct seclock_status *status_out)
{
    (void)driver;
    struct queue_state state;
    struct etcd_answer readers;
    char value[VALUE64_SIZE];
    enum seclock_result result = read_state(self, name, &state, &readers);
    etcd_answer_free(&readers);
    status_out->waiting = 0;
    if (result != SECLOCK_OK)
        return result == SECLOCK_UNKNOWN ? SECLOCK_FAILED : result;
    if (!state.held)
        return SECLOCK_OK;
    status_out->held = true;
    status_out->mode = state.mode;
    status_out->count = state.holders;
    status_out->waiting = state.keys > state.holders ? state.keys - state.holders : 0;
    status_out->fence = (uint64_t)state.last_revision;
    decode(state.value64, value);
    snprintf(status_out->holder, sizeof status_out->holder, "%.*s", (int)strcspn(value, " "),
             value);
    return SECLOCK_OK;
}

static enum seclock_result etcd_leader(const struct lock_driver *driver, void *self,
                                       const char *name, struct seclock_leader *leader_out)
{
    (void)driver;
    struct queue_state state;
    char value[VALUE64_SIZE];
    enum seclock_result result = read_first(self, name, &state);
    decode(state.value64, value);
    char *number = strchr(value, ' '), *said = number ? strchr(number + 1, ' ') : NULL;
    if (result != SECLOCK_OK || !state.held || state.mode != SECLOCK_MODE_WRITE || !said)
        return result == SECLOCK_UNKNOWN ? SECLOCK_FAILED : result;
    leader_out->led = true;
    leader_out->term = (uint64_t)state.first_revision;
    snprintf(leader_out->holder, sizeof leader_out->holder, "%.*s", (int)(number - value), value);
    snprintf(leader_out->value, sizeof leader_out->value, "%s", said + 1);
    return SECLOCK_OK;
}

/* Deletes a holder's key if it is still the one of that revision. */
static enum seclock_result break_key(struct etcd_kind *kind, const char *key64, int64_t revision)
{
    char body[BODY_MAX];
    struct etcd_answer answer;
    snprintf(body, sizeof body,
             "{\"compare\":[{\"target\":\"CREATE\",\"key\":\"%s\",\"create_revision\":\"%" PRId64
             "\"}],\"success\":[{\"request_delete_range\":{\"key\":\"%s\"}}]}",
             key64, revision, key64);
    enum seclock_result result =
        etcd_call(kind->etcd, "/v3/kv/txn", body, kind->timeout_ms, &answer);
    if (result == SECLOCK_OK && !succeeded(&answer))
        result = lock_none_held(answer.in_doubt);
    etcd_answer_free(&answer);
    return result;
}

/* Takes the lock from each of the readers. The first failure ends it. */
static enum seclock_result break_readers(struct etcd_kind *kind, const struct etcd_answer *readers)
{
    const json_t *keys = json_object_get(readers->json, "kvs");
    enum seclock_result result = SECLOCK_NOT_OWNER;
    for (size_t i = 0; i < json_array_size(keys); i++) {
        char key64[ETCD_KEY64_SIZE];
        copy_text(json_array_get(keys, i), "key", key64, sizeof key64);
        enum seclock_result broken =
            break_key(kind, key64, etcd_number(json_array_get(keys, i), "create_revision"));
        if (broken != SECLOCK_OK && broken != SECLOCK_NOT_OWNER)
            return broken;
        if (broken == SECLOCK_OK)
            result = SECLOCK_OK;
    }
    return result;
}

static enum seclock_result etcd_break(const struct lock_driver *driver, void *self,
                                      const char *name)
{
    (void)driver;
    struct queue_state state;
    struct etcd_answer readers;
    enum seclock_result result = read_state(self, name, &state, &readers);
    if (result == SECLOCK_UNKNOWN)
        result = SECLOCK_FAILED; /* nothing was asked for but to read */
    else if (result == SECLOCK_OK && !state.held)
        result = SECLOCK_NOT_OWNER;
    else if (result == SECLOCK_OK && state.mode == SECLOCK_MODE_READ)
        result = break_readers(self, &readers);
    else if (result == SECLOCK_OK)
        result = break_key(self, state.first64, state.first_revision);
    etcd_answer_free(&readers);
    return result;
}

const struct lock_driver etcd_driver = {
    .kind = SECLOCK_KIND_ETCD,
    .features = LOCK_RENEWS | LOCK_READS,
    .open = etcd_kind_open,
    .close = etcd_kind_close,
    .forget = etcd_kind_forget,
    .acquire = etcd_acquire,
    .wait_fd = etcd_wait_fd,
    .stop_waiting = etcd_stop_waiting,
    .renew = etcd_renew,
    .proclaim = etcd_proclaim,
    .leader = etcd_leader,
    .release = etcd_release,
    .lapse = etcd_lapse,
    .drop = etcd_drop,
    .status = etcd_status,
    .break_lock = etcd_break,
};

/* Writes the keys of locks in etcd, and gives requests' keys up. */
#include "lock/etcd/key.h"

#include <assert.h>
#include <inttypes.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "lock/etcd/http.h"
#include "lock/etcd/lease.h"

enum { BODY_MAX = 12 * ETCD_KEY64_SIZE };

#define HELD64 "aGVsZA==" /* "held": the request had a key when it ended */

void etcd_encode(const char *text, char text64_out[ETCD_KEY64_SIZE])
{
    size_t length = strlen(text);
    assert(length < ETCD_KEY_SIZE);
    EVP_EncodeBlock((unsigned char *)text64_out, (const unsigned char *)text, (int)length);
}

/* The parts stand in this order: read/, write/ and what is not of the lock's range. */
static void write_part(const char *prefix, const char *name, const char *part, const char *request,
                       char key64_out[ETCD_KEY64_SIZE])
{
    char key[ETCD_KEY_SIZE];
    lock_path(prefix, name, key);
    size_t used = strlen(key);
    int more = snprintf(key + used, sizeof key - used, "/%s%s", part, request);
    assert(more > 0 && used + (size_t)more < sizeof key);
    etcd_encode(key, key64_out);
}

void etcd_key_write(const struct etcd_key *key, char key64_out[ETCD_KEY64_SIZE])
{
    const char *part = key->mode == SECLOCK_MODE_READ ? "read/" : "write/";
    write_part(key->prefix, key->name, part, key->request, key64_out);
}

void etcd_key_write_ended(const struct etcd_key *key, char key64_out[ETCD_KEY64_SIZE])
{
    write_part(key->prefix, key->name, "ended/", key->request, key64_out);
}

/* The end is the first text after all that begin with "write/": '0' follows '/'. */
void etcd_key_range(const char *prefix, const char *name, bool writers_only,
                    char from64_out[ETCD_KEY64_SIZE], char to64_out[ETCD_KEY64_SIZE])
{
    write_part(prefix, name, writers_only ? "write/" : "read/", "", from64_out);
    write_part(prefix, name, "write0", "", to64_out);
}

/* ---- giving up ---- */

static enum seclock_result delete_plainly(struct etcd *etcd, struct etcd_key *key, int wait_ms)
{
    char key64[ETCD_KEY64_SIZE], body[ETCD_KEY64_SIZE + 32];
    struct etcd_answer answer;
    etcd_key_write(key, key64);
    snprintf(body, sizeof body, "{\"key\":\"%s\"}", key64);
    enum seclock_result result = etcd_call(etcd, "/v3/kv/deleterange", body, wait_ms, &answer);
    key->deleting = key->deleting || answer.in_doubt;
    if (result == SECLOCK_OK && etcd_number(answer.json, "deleted") == 0 && !key->deleting)
        result = SECLOCK_LOST;
    etcd_answer_free(&answer);
    return result;
}

/* True when an earlier sending of the same transaction has deleted the key. */
static bool deleted_before(const json_t *txn)
{
    const json_t *inner = etcd_response(txn, 0, "response_txn");
    const json_t *ended = etcd_first_key(etcd_response(inner, 0, "response_range"));
    const char *value = json_string_value(json_object_get(ended, "value"));
    return value && strcmp(value, HELD64) == 0;
}

/* why_the_first_ending_stays: it says whether the request had a key. A repeat of this transaction
 * finds it, and gives the same answer. */
static enum seclock_result delete_for_good(struct etcd *etcd, const struct etcd_key *key,
                                           int64_t lease_id, int wait_ms)
{
    char key64[ETCD_KEY64_SIZE], ended64[ETCD_KEY64_SIZE], body[BODY_MAX];
    struct etcd_answer answer;
    etcd_key_write(key, key64);
    etcd_key_write_ended(key, ended64);
    int length = snprintf(
        body, sizeof body,
        "{\"compare\":[{\"target\":\"CREATE\",\"result\":\"GREATER\",\"key\":\"%s\","
        "\"create_revision\":0}],"
        "\"success\":[{\"request_delete_range\":{\"key\":\"%s\"}},"
        "{\"request_put\":{\"key\":\"%s\",\"value\":\"" HELD64 "\",\"lease\":\"%" PRId64 "\"}}],"
        "\"failure\":[{\"request_txn\":{"
        "\"compare\":[{\"target\":\"CREATE\",\"key\":\"%s\",\"create_revision\":0}],"
        "\"success\":[{\"request_put\":{\"key\":\"%s\",\"lease\":\"%" PRId64 "\"}}],"
        "\"failure\":[{\"request_range\":{\"key\":\"%s\"}}]}}]}",
        key64, key64, ended64, lease_id, ended64, ended64, lease_id, ended64);
    assert(length < (int)sizeof body);
    enum seclock_result result = etcd_call(etcd, "/v3/kv/txn", body, wait_ms, &answer);
    if (result == SECLOCK_OK && !json_is_true(json_object_get(answer.json, "succeeded")) &&
        !deleted_before(answer.json))
        result = SECLOCK_LOST;
    etcd_answer_free(&answer);
    return result;
}

/* In doubt there is no other way than to remember the request for longer than a network may keep
 * its sending. */
enum seclock_result etcd_key_end(struct etcd *etcd, struct etcd_leases *leases,
                                 struct etcd_key *key, int wait_ms)
{
    int64_t until_ms = clock_now_ms() + wait_ms;
    struct etcd_lease *lease;
    if (!key->may_exist)
        return SECLOCK_LOST;
    if (!key->in_doubt)
        return delete_plainly(etcd, key, wait_ms);
    if (etcd_lease_take_brief(leases, wait_ms, &lease) != SECLOCK_OK)
        return SECLOCK_FAILED;
    int64_t left_ms = until_ms - clock_now_ms();
    enum seclock_result result =
        delete_for_good(etcd, key, etcd_lease_id(lease), left_ms > 1 ? (int)left_ms : 1);
    etcd_lease_drop(leases, &lease);
    return result;
}

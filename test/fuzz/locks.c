/* Fuzzes the texts that the lock library is given. Lines: a server, the prefix, the kind, the name,
 * the owner's or request's text, numbers.
 *
 * A client takes servers and a prefix that are in their bounds, and every call on it has a known
 * outcome; without a server nothing is acquired. Keys and statements hold what they are made of. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "lock/redis/pipeline.h"
#include "lock/seclock.h"
#include "lock/text.h"
#include "test/fuzz/fuzz.h"

struct texts {
    char *server, *prefix, *kind, *name, *request;
    int numbers[4];
};

/* The parts of a key stand in it as they are, and the braces of the hash tag are the first ones. */
static void check_keys(const struct texts *texts)
{
    char key[SCRIPT_KEY_MAX], field[LOCK_FIELD_MAX], again[LOCK_FIELD_MAX];
    if (lock_name_check(texts->name) != SECLOCK_OK || strlen(texts->prefix) >= SECLOCK_PREFIX_MAX ||
        strlen(texts->request) >= SECLOCK_TOKEN_MAX)
        return;
    lock_redis_released("released", texts->request, field);
    lock_redis_released("released", texts->request, again);
    assert(strcmp(field, again) == 0 && memchr(field, '\0', sizeof field));
    lock_redis_key(texts->prefix, texts->name, field, key);
    size_t head = strlen(texts->prefix), length = strlen(texts->name);
    assert(strncmp(key, texts->prefix, head) == 0 && key[head] == '{');
    assert(memcmp(key + head + 1, texts->name, length) == 0);
    assert(strncmp(key + head + 1 + length, "}:", 2) == 0);
    assert(strcmp(key + head + length + 3, field) == 0);
}

static void check_known(enum seclock_result result)
{
    assert((unsigned)result < SECLOCK_RESULT_COUNT);
    assert(strcmp(seclock_result_name(result), "?") != 0);
    assert(result == SECLOCK_OK || seclock_error()[0] != '\0');
}

/* Nobody answers, so that nothing is acquired, nothing unknown, and no handle left. */
static void check_acquire(struct seclock_client *client, enum seclock_kind kind,
                          const struct texts *texts)
{
    struct seclock_handle *handle = NULL;
    struct seclock_request request =
        SECLOCK_REQUEST(.name = texts->name, .kind = kind, .permits = texts->numbers[0],
                        .limit = texts->numbers[1], .lease_ms = texts->numbers[2],
                        .hold_ms_max = texts->numbers[3]);
    enum seclock_result result = seclock_acquire(client, &request, &handle);
    check_known(result);
    assert(result != SECLOCK_OK && result != SECLOCK_UNKNOWN && !handle);
    if (lock_name_check(texts->name) != SECLOCK_OK)
        assert(result == SECLOCK_CONFIG || result == SECLOCK_UNSUPPORTED);
}

static void check_calls(struct seclock_client *client, enum seclock_kind kind,
                        const struct texts *texts)
{
    struct seclock_status status = SECLOCK_STATUS();
    int64_t left = 0;
    enum seclock_result results[] = {
        seclock_status(client, kind, texts->name, &status),
        seclock_break(client, kind, texts->name),
        seclock_semaphore_set(client, kind, texts->name, texts->numbers[1]),
        seclock_permit_release(client, texts->name, texts->request),
        seclock_permit_extend(client, texts->name, texts->request, texts->numbers[2]),
        seclock_latch_set(client, texts->name, texts->numbers[0], texts->numbers[2], NULL),
        seclock_latch_count_down(client, texts->name, 0, texts->request, &left),
        seclock_latch_count(client, texts->name, &left),
    };
    for (size_t i = 0; i < sizeof results / sizeof *results; i++) {
        check_known(results[i]);
        assert(results[i] != SECLOCK_OK && results[i] != SECLOCK_UNKNOWN);
    }
    check_acquire(client, kind, texts);
}

static void check_client(const struct texts *texts)
{
    struct seclock_client *client = NULL;
    enum seclock_kind kind = SECLOCK_KIND_SIMPLE;
    const char *const given[] = {texts->server, NULL};
    const char *const unreachable[] = {"redis://127.0.0.1:1", "mysql://u@h/d?socket=/none/socket",
                                       NULL};
    struct seclock_options options =
        SECLOCK_OPTIONS(.servers = given, .prefix = texts->prefix, .timeout_ms = texts->numbers[3],
                        .lease_ms = texts->numbers[2]);
    enum seclock_result result = seclock_open(&options, &client);
    check_known(result);
    assert((result == SECLOCK_OK) == (client != NULL));
    if (client)
        seclock_close(&client);
    options.servers = unreachable;
    options.timeout_ms = options.outage_ms = 1;
    if (seclock_open(&options, &client) != SECLOCK_OK)
        return;
    assert(strlen(texts->prefix) < SECLOCK_PREFIX_MAX);
    if (seclock_kind_find(texts->kind, &kind))
        assert(strcmp(seclock_kind_name(kind), texts->kind) == 0);
    check_calls(client, kind, texts);
    seclock_close(&client);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    struct texts texts = {
        .server = fuzz_text(&input, '\n', NULL),
        .prefix = fuzz_text(&input, '\n', NULL),
        .kind = fuzz_text(&input, '\n', NULL),
        .name = fuzz_text(&input, '\n', NULL),
        .request = fuzz_text(&input, '\n', NULL),
    };
    for (size_t i = 0; i < sizeof texts.numbers / sizeof *texts.numbers; i++) {
        char *number = fuzz_text(&input, ' ', NULL);
        texts.numbers[i] = (int)strtol(number, NULL, 10);
        free(number);
    }
    check_keys(&texts);
    check_client(&texts);
    free(texts.server);
    free(texts.prefix);
    free(texts.kind);
    free(texts.name);
    free(texts.request);
    return 0;
}

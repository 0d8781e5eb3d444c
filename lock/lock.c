/* What is common to all locks: tokens, deadlines, waiting, and the list of drivers. */
#include "lock/lock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "lock/lock_driver.h"
#include "lock/lock_hold.h"

enum {
    POLL_MS_MIN = 1,
    POLL_MS_MAX = 20,
};

static const struct lock_driver *const drivers[] = {&lock_redis_driver};

struct lock_client {
    const struct lock_driver *driver;
    void *self;
    char prefix[LOCK_PREFIX_MAX];
    int lease_ms;
    int64_t (*now_ns)(void);
    void (*sleep_ms)(int ms);
    unsigned jitter;
};

static int64_t monotonic_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void sleep_for_ms(int ms)
{
    struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L};
    nanosleep(&span, NULL);
}

static const struct lock_driver *driver_find(const char *kind)
{
    for (size_t i = 0; i < sizeof drivers / sizeof drivers[0]; i++)
        if (strcmp(drivers[i]->kind, kind) == 0)
            return drivers[i];
    return NULL;
}

struct lock_client *lock_open(const struct lock_options *options, char *error_out,
                              size_t error_size)
{
    const struct lock_driver *driver = driver_find(options->kind);
    if (!driver || options->lease_ms <= 0 || strlen(options->prefix) >= LOCK_PREFIX_MAX) {
        snprintf(error_out, error_size, "%s",
                 driver ? "lease or prefix out of range" : "no such kind of lock");
        return NULL;
    }
    struct lock_client *client = calloc(1, sizeof *client);
    if (!client) {
        snprintf(error_out, error_size, "out of memory");
        return NULL;
    }
    client->driver = driver;
    client->lease_ms = options->lease_ms;
    strcpy(client->prefix, options->prefix);
    client->now_ns = options->now_ns ? options->now_ns : monotonic_ns;
    client->sleep_ms = options->sleep_ms ? options->sleep_ms : sleep_for_ms;
    client->jitter = (unsigned)client->now_ns() ^ (unsigned)(uintptr_t)client;
    client->self = driver->open(options, error_out, error_size);
    if (!client->self) {
        free(client);
        return NULL;
    }
    return client;
}

void lock_close(struct lock_client **client)
{
    if (*client)
        (*client)->driver->close((*client)->self);
    free(*client);
    *client = NULL;
}

enum lock_result lock_try(struct lock_client *client, const char *name, struct lock_hold *hold_out)
{
    lock_hold_init(hold_out, client->prefix, name, client->lease_ms);
    int64_t sent_ns = client->now_ns();
    enum lock_result result = client->driver->acquire(client->self, hold_out);
    lock_hold_acquired(hold_out, result, sent_ns);
    if (result == LOCK_OK && lock_remaining_ms(client, hold_out) == 0) {
        lock_release(client, hold_out); /* the answer came too late to be of use */
        return LOCK_BUSY;
    }
    return result;
}

enum lock_result lock_acquire(struct lock_client *client, const char *name, int wait_ms,
                              struct lock_hold *hold_out)
{
    int64_t until_ns = client->now_ns() + (int64_t)wait_ms * 1000000;
    for (int pause_ms = POLL_MS_MIN;;) {
        enum lock_result result = lock_try(client, name, hold_out);
        if (result != LOCK_BUSY)
            return result;
        if (client->now_ns() >= until_ns)
            return LOCK_TIMEOUT;
        client->sleep_ms(pause_ms + rand_r(&client->jitter) % pause_ms);
        pause_ms = pause_ms * 2 > POLL_MS_MAX ? POLL_MS_MAX : pause_ms * 2;
    }
}

enum lock_result lock_renew(struct lock_client *client, struct lock_hold *hold)
{
    if (hold->state != LOCK_HELD && hold->state != LOCK_IN_DOUBT)
        return LOCK_LOST;
    int64_t sent_ns = client->now_ns();
    enum lock_result result = client->driver->renew(client->self, hold);
    if (result == LOCK_OK)
        lock_hold_acquired(hold, result, sent_ns);
    else if (result == LOCK_LOST)
        hold->state = LOCK_GONE;
    return result;
}

enum lock_result lock_release(struct lock_client *client, struct lock_hold *hold)
{
    if (hold->state == LOCK_RELEASED)
        return LOCK_OK;
    enum lock_result result = client->driver->release(client->self, hold);
    hold->state = LOCK_RELEASED;
    return result;
}

int64_t lock_remaining_ms(const struct lock_client *client, const struct lock_hold *hold)
{
    int64_t left_ns = hold->deadline_ns - client->now_ns();
    return hold->state == LOCK_HELD && left_ns > 0 ? left_ns / 1000000 : 0;
}

const char *lock_error(const struct lock_client *client)
{
    return client->driver->error(client->self);
}

const char *lock_result_name(enum lock_result result)
{
    static const char *const names[] = {"ok", "busy", "timeout", "lost", "failed", "unknown"};
    assert((size_t)result < sizeof names / sizeof names[0]);
    return names[result];
}

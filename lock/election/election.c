/* Elects leaders: a leader is a holder of a lock who has proclaimed a value. */
#include "lock/election/election.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lock/client.h"
#include "lock/lock.h"
#include "lock/text.h"

#define NS_PER_MS INT64_C(1000000)

enum {
    RETRY_MS = 100, /* while no server answers */
    LEADER_SIZE_MIN = sizeof(struct seclock_leader),
};

/* ---- to lead ---- */

static enum seclock_result may_elect(const struct lock_driver *driver, enum seclock_mode mode)
{
    if (!driver->proclaim)
        return lock_fail(SECLOCK_UNSUPPORTED,
                         "this kind elects nobody: it has no fence that orders its holders");
    return mode == SECLOCK_MODE_READ ? lock_fail(SECLOCK_UNSUPPORTED, "a reader does not lead")
                                     : SECLOCK_OK;
}

static enum seclock_result value_check(const char *value)
{
    return value && strlen(value) < SECLOCK_LEADER_VALUE_MAX
               ? SECLOCK_OK
               : lock_fail(SECLOCK_CONFIG, "a leader proclaims a text of up to %d bytes",
                           SECLOCK_LEADER_VALUE_MAX - 1);
}

enum seclock_result election_value(const struct seclock_handle *handle, const char *value,
                                   char **copy_out)
{
    if (!lock_is_owned(handle))
        return SECLOCK_NOT_OWNER;
    enum seclock_result result = may_elect(handle->driver, handle->mode);
    if (result == SECLOCK_OK)
        result = value_check(value);
    if (result != SECLOCK_OK)
        return result;
    *copy_out = strdup(value);
    return *copy_out ? SECLOCK_OK : lock_fail(SECLOCK_FAILED, "out of memory");
}

/* A hold whose acquisition was not answered learns its fence from a renewal first. */
static enum seclock_result proclaim(struct seclock_handle *handle, const char *value)
{
    char *copy;
    enum seclock_result result = election_value(handle, value, &copy);
    if (result != SECLOCK_OK)
        return result;
    if (seclock_fence(handle) == 0)
        result = lock_renew(handle, NULL);
    if (result == SECLOCK_OK && seclock_fence(handle) == 0)
        result = lock_fail(SECLOCK_FAILED, "the fence of the hold is not known yet");
    if (result == SECLOCK_OK)
        return lock_renew(handle, copy);
    free(copy);
    return result;
}

enum seclock_result seclock_proclaim(struct seclock_handle *handle, const char *value)
{
    UNCANCELLED;
    return proclaim(handle, value);
}

/* Gives up a hold whose value was not proclaimed, and keeps the reason of that. */
static enum seclock_result give_up(struct seclock_handle **handle)
{
    char why[200];
    snprintf(why, sizeof why, "%s", seclock_error());
    seclock_release(*handle);
    seclock_free(handle);
    return lock_fail(SECLOCK_FAILED, "the value was not proclaimed: %s", why);
}

static enum seclock_result campaign(struct seclock_client *client,
                                    const struct seclock_request *request, const char *value,
                                    struct seclock_handle **handle_out)
{
    const struct lock_driver *driver;
    void *self;
    enum seclock_result result = client_driver(client, request->kind, &driver, &self);
    if (result == SECLOCK_OK)
        result = may_elect(driver, request->mode);
    if (result == SECLOCK_OK)
        result = value_check(value);
    if (result == SECLOCK_OK)
        result = lock_acquire(client, request, handle_out);
    if (result != SECLOCK_OK)
        return result;
    result = proclaim(*handle_out, value);
    return result == SECLOCK_OK || result == SECLOCK_UNKNOWN ? result : give_up(handle_out);
}

enum seclock_result seclock_campaign(struct seclock_client *client,
                                     const struct seclock_request *request, const char *value,
                                     struct seclock_handle **handle_out)
{
    UNCANCELLED;
    struct seclock_request known;
    *handle_out = NULL;
    enum seclock_result result = lock_request_read(&known, request);
    return result == SECLOCK_OK ? campaign(client, &known, value, handle_out) : result;
}

/* ---- to follow ---- */

/* A question leaves nothing in doubt. */
static enum seclock_result ask(const struct lock_driver *driver, void *self, const char *name,
                               struct seclock_leader *leader_out)
{
    *leader_out = (struct seclock_leader){.led = false};
    enum seclock_result result = driver->leader(driver, self, name, leader_out);
    return result == SECLOCK_UNKNOWN ? SECLOCK_FAILED : result;
}

enum seclock_result seclock_leader(struct seclock_client *client, enum seclock_kind kind,
                                   const char *name, struct seclock_leader *leader_out)
{
    const struct lock_driver *driver;
    void *self;
    struct seclock_leader leader = {.led = false};
    if (!lock_sized_write(leader_out, sizeof leader, LEADER_SIZE_MIN, &leader))
        return SECLOCK_CONFIG;
    enum seclock_result result = client_lock(client, kind, name, &driver, &self);
    if (result == SECLOCK_OK)
        result = may_elect(driver, SECLOCK_MODE_WRITE);
    if (result == SECLOCK_OK)
        result = ask(driver, self, name, &leader);
    lock_sized_write(leader_out, sizeof leader, LEADER_SIZE_MIN, &leader);
    return result;
}

static bool is_news(const struct seclock_leader *seen, const struct seclock_leader *known)
{
    return seen->led != known->led ||
           (seen->led && (seen->term != known->term || strcmp(seen->value, known->value) != 0));
}

/* Sleeps until there may be news. True: the caller has ended the wait. */
static bool observer_sleep(struct seclock_handle *observer, int64_t ms)
{
    if (observer->driver->wait_channel)
        observer->driver->wait(observer->self, observer, (int)ms);
    else
        handle_sleep(observer, (int)ms);
    return observer->cancel_fd > 0 && handle_sleep(observer, 0);
}

static int64_t lesser(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Asks, sleeps and asks again. The first sleep ends when the subscription is in force, if there is
 * one, so that no proclamation between question and subscription is missed. */
static enum seclock_result observe(struct seclock_handle *observer, int wait_ms,
                                   struct seclock_leader *leader)
{
    const struct seclock_options *options = &observer->core->options;
    struct seclock_leader seen;
    int64_t began_ns = observer->now_ns(), failed_ns = 0;
    for (;;) {
        enum seclock_result result = ask(observer->driver, observer->self, observer->name, &seen);
        int64_t now_ns = observer->now_ns(), left_ms = INT64_MAX;
        if (result == SECLOCK_OK && is_news(&seen, leader)) {
            *leader = seen;
            return SECLOCK_OK;
        }
        if (result == SECLOCK_OK)
            failed_ns = 0;
        else if (failed_ns == 0)
            failed_ns = now_ns;
        if (result != SECLOCK_OK &&
            (result != SECLOCK_FAILED || now_ns - failed_ns > options->outage_ms * NS_PER_MS))
            return result;
        if (wait_ms != SECLOCK_FOREVER)
            left_ms = wait_ms - (now_ns - began_ns) / NS_PER_MS;
        if (left_ms <= 0)
            return result == SECLOCK_OK ? lock_fail(SECLOCK_TIMEOUT, "no news in %d ms", wait_ms)
                                        : result;
        int pause_ms = result == SECLOCK_OK ? options->poll_ms : RETRY_MS;
        atomic_fetch_add(&observer->core->counters[observer->driver->kind].waits, 1);
        if (observer_sleep(observer, lesser(pause_ms, left_ms)))
            return lock_fail(SECLOCK_CANCELLED, "the wait was cancelled");
    }
}

enum seclock_result seclock_observe(struct seclock_client *client,
                                    const struct seclock_request *request,
                                    struct seclock_leader *leader)
{
    UNCANCELLED;
    struct seclock_request given;
    struct seclock_leader known;
    struct seclock_handle *observer;
    enum seclock_result result = lock_request_read(&given, request);
    if (result != SECLOCK_OK)
        return result;
    if (!lock_sized_read(&known, sizeof known, LEADER_SIZE_MIN, leader))
        return SECLOCK_CONFIG;
    struct seclock_request wanted =
        SECLOCK_REQUEST(.name = given.name, .kind = given.kind, .wait_ms = given.wait_ms,
                        .cancel_fd = given.cancel_fd);
    result = lock_prepare(client, &wanted, &observer);
    if (result != SECLOCK_OK)
        return result;
    observer->observes = true;
    result = may_elect(observer->driver, SECLOCK_MODE_WRITE);
    if (result == SECLOCK_OK)
        result = observe(observer, wanted.wait_ms, &known);
    if (observer->driver->wait_channel)
        observer->driver->stop_waiting(observer->self, observer, true);
    seclock_free(&observer);
    if (result == SECLOCK_OK)
        lock_sized_write(leader, sizeof known, LEADER_SIZE_MIN, &known);
    return result;
}

/* Acquires and releases a lock at random, and records its holds: one JSON object per line,
 * times by CLOCK_MONOTONIC in ns, which all processes of a machine share. See history_check.py.
 *
 * usage: lock_history MODEL KIND NAME SEED SERVER...
 *
 * It goes on until SIGTERM, and then gives back what it holds. With HISTORY_SECONDS it pauses less.
 *
 * MODEL is mutex, reentrant, read-write or semaphore; or one of the two broken locks by which the
 * checker proves that it can find something: careless (takes a mutex without asking anybody) and
 * forgetful (asks, but neither renews nor looks whether the hold is still its own). */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#include "lock/seclock.h"

enum {
    HOLDS_MAX = 4,
    OWNERS = 2,
    LIMIT = 3, /* permits of a semaphore; history_check.py knows it too */
    LEASE_MS = 250,
    POLL_MS = 100,
    WAIT_MS_MAX = 60,
    STAY_MS_MAX = 8,
    PAUSE_MS_MAX = 100,
    OVERSTAY_MS = LEASE_MS + 100,
};

struct hold {
    struct seclock_handle *handle; /* NULL: none, or a careless one */
    bool used;
    int id, owner, permits;
    enum seclock_mode mode;
    int64_t begin_ns, end_ns, seen_ns; /* of the acquisition; when it was last known to be held */
};

static struct seclock_client *client;
static struct seclock_owner *owners[OWNERS];
static struct hold holds[HOLDS_MAX];
static bool careless, forgetful, reentrant, reads;
static const char *name;
static enum seclock_kind kind;
static int limit, pause_ms_max = PAUSE_MS_MAX;

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static void sleep_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

static int below(int bound)
{
    return (int)(random() % bound);
}

static bool held(const struct hold *hold)
{
    return careless || forgetful || seclock_state(hold->handle) == SECLOCK_STATE_HELD;
}

/* Reads the clock first: a hold that is valid after that was valid then. */
static void look(void)
{
    for (int i = 0; i < HOLDS_MAX; i++) {
        int64_t seen_ns = now_ns();
        if (holds[i].used && held(&holds[i]))
            holds[i].seen_ns = seen_ns;
    }
}

/* A process that was stopped meanwhile has acquired what it does not hold any more. */
static void write_acquired(const struct hold *hold, enum seclock_result result)
{
    printf("{\"event\":\"acquire\",\"hold\":\"%d-%d\",\"owner\":\"%d-%d\",\"mode\":\"%s\","
           "\"permits\":%d,\"begin\":%lld,\"end\":%lld,\"result\":\"%s\",\"held\":%s,"
           "\"fence\":%llu}\n",
           (int)getpid(), hold->id, (int)getpid(), hold->owner,
           hold->mode == SECLOCK_MODE_READ ? "read" : "write", hold->permits,
           (long long)hold->begin_ns, (long long)hold->end_ns, seclock_result_name(result),
           result == SECLOCK_OK && held(hold) ? "true" : "false",
           hold->handle ? (unsigned long long)seclock_fence(hold->handle) : 0ULL);
    fflush(stdout);
}

static void write_released(const struct hold *hold, const char *result)
{
    printf("{\"event\":\"release\",\"hold\":\"%d-%d\",\"seen\":%lld,\"result\":\"%s\"}\n",
           (int)getpid(), hold->id, (long long)hold->seen_ns, result);
    fflush(stdout);
}

static enum seclock_result ask(struct hold *hold)
{
    static const int waits[] = {0, 20, WAIT_MS_MAX};
    struct seclock_request request =
        SECLOCK_REQUEST(.name = name, .kind = kind, .mode = hold->mode, .permits = hold->permits,
                        .limit = limit, .wait_ms = waits[below(3)],
                        .fixed_lease = forgetful || below(10) == 0, .owner = owners[hold->owner]);
    return careless ? SECLOCK_OK : seclock_acquire(client, &request, &hold->handle);
}

static void acquire(struct hold *hold)
{
    static int ids;
    *hold = (struct hold){.id = ++ids, .owner = reentrant ? below(OWNERS) : 0};
    hold->permits = limit > 0 ? 1 + below(2) : 1;
    hold->mode = reads && below(3) > 0 ? SECLOCK_MODE_READ : SECLOCK_MODE_WRITE;
    hold->begin_ns = now_ns();
    enum seclock_result result = ask(hold);
    hold->seen_ns = hold->end_ns = now_ns();
    hold->used = result == SECLOCK_OK;
    if (result == SECLOCK_OK || result == SECLOCK_UNKNOWN)
        write_acquired(hold, result);
    if (result == SECLOCK_UNKNOWN)
        write_released(hold, seclock_result_name(seclock_release(hold->handle)));
    if (result != SECLOCK_OK)
        seclock_free(&hold->handle);
}

static void release(struct hold *hold)
{
    look();
    enum seclock_result result = careless ? SECLOCK_OK : seclock_release(hold->handle);
    write_released(hold, seclock_result_name(result));
    seclock_free(&hold->handle);
    hold->used = false;
}

/* Mostly short, now and then longer than a lease that is not renewed. */
static void stay(void)
{
    int ms = below(40) == 0 ? OVERSTAY_MS : below(STAY_MS_MAX);
    for (int64_t until_ns = now_ns() + ms * INT64_C(1000000); now_ns() < until_ns; sleep_ms(1))
        look();
}

static bool holds_any(void)
{
    for (int i = 0; i < HOLDS_MAX; i++)
        if (holds[i].used)
            return true;
    return false;
}

/* Who holds nothing pauses: eight processes still ask for more than there is, and are refused less
 * often. */
static void step(int holds_max)
{
    struct hold *hold = &holds[below(holds_max)];
    if (hold->used)
        release(hold);
    else
        acquire(hold);
    if (holds_any())
        stay();
    else
        sleep_ms(below(pause_ms_max));
}

static void use_model(const char *model)
{
    careless = strcmp(model, "careless") == 0;
    forgetful = strcmp(model, "forgetful") == 0;
    reads = strcmp(model, "read-write") == 0;
    reentrant = strcmp(model, "reentrant") == 0 || reads;
    limit = strcmp(model, "semaphore") == 0 ? LIMIT : 0;
}

/* SIGTERM is blocked, so that it does not end a sleep of the library's. */
static bool told_to_end(void)
{
    sigset_t pending;
    sigpending(&pending);
    return sigismember(&pending, SIGTERM);
}

int main(int argc, char **argv)
{
    if (argc < 6 || !seclock_kind_find(argv[2], &kind)) {
        fprintf(stderr, "usage: lock_history MODEL KIND NAME SEED SERVER...\n");
        return 2;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* who started it may be killed */
    use_model(argv[1]);
    if (getenv("HISTORY_SECONDS"))
        pause_ms_max = STAY_MS_MAX;
    name = argv[3];
    srandom((unsigned)atoi(argv[4]));
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, NULL);
    struct seclock_options options =
        SECLOCK_OPTIONS(.servers = (const char *const *)&argv[5], .lease_ms = LEASE_MS,
                        .poll_ms = POLL_MS, .timeout_ms = 500, .outage_ms = 500);
    if (seclock_open(&options, &client) != SECLOCK_OK) {
        fprintf(stderr, "lock_history: %s\n", seclock_error());
        return 2;
    }
    for (int i = 0; i < OWNERS; i++)
        owners[i] = seclock_owner_new(client);
    while (!told_to_end())
        step(reentrant ? HOLDS_MAX : limit > 0 ? 2 : 1);
    for (int i = 0; i < HOLDS_MAX; i++)
        if (holds[i].used)
            release(&holds[i]);
    for (int i = 0; i < OWNERS; i++)
        seclock_owner_free(&owners[i]);
    seclock_close(&client);
    return 0;
}

/* Waits for messages over one subscriber connection, which one waiting thread reads for all.
 *
 *   server ──► connection ──► the leading thread ──► its own wake-up, or
 *                                                └─► the eventfd of another waiter
 *
 * why_a_waiter_leads: a thread for the connection would have to be woken for each message, and then
 * wake the waiter: two switches between a release and the next holder. A leader that reads its own
 * message needs one. When it leaves, it signals another waiter, which then leads.
 *
 * why_sharded: a cluster passes a message of PUBLISH on to every node, one of SPUBLISH only to the
 * owner's replicas. So where the server knows sharded channels, scripts and waiters use these
 * (include/tell.lua), and a waiter subscribes at the node that has the channel's slot. When the
 * slot moves, the node ends the subscription; when the waiter's node is not the owner, it refuses.
 * Either wakes the waiter, whose next try learns the present owner, and before its next sleep it
 * joins the hub there.
 *
 * The hub's mutex guards all but the sleep in poll(2); only the leader connects and reads. */
#include "lock/redis/waiter.h"

#include <assert.h>
#include <limits.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/url.h"
#include "lock/driver.h"
#include "lock/process.h"
#include "lua/cluster/map.h"
#include "lua/script.h"

_Static_assert((int)LOCK_CHANNEL_MAX >= (int)SCRIPT_KEY_MAX + (int)SECLOCK_TOKEN_MAX,
               "a waiter's own channel is a key and its request");

enum {
    CHANNEL_MAX = LOCK_CHANNEL_MAX,
    BUCKETS = 256,
    RECONNECT_MS = 50, /* between tries to reach a server */
};

/* Greater than any number of a SUBSCRIBE: a channel has none, or the server has ended it. */
#define NO_REQUEST UINT64_MAX

struct waiter {
    struct waiter_hub *hub;
    struct channel *channel;
    TAILQ_ENTRY(waiter) on_channel; /* in order of arrival */
    TAILQ_ENTRY(waiter) on_hub;     /* of all channels */
    int event_fd;                   /* -1 in a loop */
    void *context;                  /* for the loop */
    bool woken;
    bool owes;     /* it was woken and has not slept since: it tries, or has left */
    bool sleeping; /* in poll(2), so that only a signal reaches it */
    bool signalled;
};

TAILQ_HEAD(waiters, waiter);

struct channel {
    LIST_ENTRY(channel) in_bucket;
    struct waiters waiters;
    uint64_t request; /* the number of its SUBSCRIBE on this connection, or NO_REQUEST */
    char name[CHANNEL_MAX];
};

struct waiter_hub {
    pthread_mutex_t mutex;
    struct process_guard guard;
    struct redis *redis;
    struct url_server node; /* of a cluster; port 0: the URL's server */
    int timeout_ms;
    void (*woken)(void *context); /* NULL: threads wait */
    bool connecting;              /* a loop's: another thread has the connection */
    int64_t connect_ms;           /* when to try again */
    bool unsharded;               /* the server refused sharded channels on the last connection */
    bool sharded;                 /* the channels of this connection are */
    bool online;                  /* connected, and a SUBSCRIBE sent for every channel */
    uint64_t asked, answered;     /* SUBSCRIBEs on this connection, which answers them in order */
    int64_t silent_ms;            /* since when an answer is due, if one is */
    struct waiter *leader;
    struct waiters all;
    LIST_HEAD(bucket, channel) buckets[BUCKETS];
};

static struct redis *open_redis(const char *url, const struct url_server *node, int timeout_ms)
{
    char error[128];
    struct url parts;
    if (!node)
        return redis_open(url, timeout_ms, error, sizeof error);
    return url_parse(url, "redis", &parts, error, sizeof error)
               ? redis_open_node(&parts, node->host, node->port, timeout_ms)
               : NULL;
}

struct waiter_hub *waiter_hub_open(const char *url, const struct url_server *node, int timeout_ms,
                                   void (*woken)(void *context))
{
    assert(timeout_ms > 0);
    struct waiter_hub *hub = calloc(1, sizeof *hub);
    if (!hub)
        return NULL;
    if (node)
        hub->node = *node;
    hub->redis = open_redis(url, node, timeout_ms);
    if (!hub->redis) {
        free(hub);
        return NULL;
    }
    TAILQ_INIT(&hub->all);
    hub->timeout_ms = timeout_ms;
    hub->woken = woken;
    if (woken)
        redis_never_wait(hub->redis);
    process_guard(&hub->guard, &hub->mutex);
    return hub;
}

void waiter_hub_close(struct waiter_hub **hub)
{
    struct waiter_hub *old = *hub;
    *hub = NULL;
    if (!old)
        return;
    assert(TAILQ_EMPTY(&old->all));
    redis_close(&old->redis);
    process_unguard(&old->guard);
    free(old);
}

bool waiter_hub_is_at(const struct waiter_hub *hub, const struct url_server *node)
{
    return hub->node.port == node->port && strcmp(hub->node.host, node->host) == 0;
}

/* Leaves the connection alone: a leader may have been changing it at the fork. */
void waiter_hub_forget(struct waiter_hub *hub)
{
    const struct waiter *w;
    TAILQ_FOREACH (w, &hub->all, on_hub)
        if (w->event_fd >= 0)
            close(w->event_fd);
    if (hub->online && redis_fd(hub->redis) >= 0)
        close(redis_fd(hub->redis));
}

/* ---- waking; the mutex is held ---- */

static void signal_waiter(struct waiter *waiter)
{
    assert(waiter->sleeping);
    int failed = eventfd_write(waiter->event_fd, 1);
    assert(failed == 0);
    waiter->signalled = true;
}

static void clear_signal(struct waiter *waiter)
{
    eventfd_t signals;
    if (waiter->signalled)
        eventfd_read(waiter->event_fd, &signals); /* nothing to read: another look costs little */
    waiter->signalled = false;
}

static void wake(struct waiter *waiter)
{
    bool asleep = !waiter->woken && waiter->sleeping;
    waiter->woken = true;
    if (asleep && waiter->hub->woken)
        waiter->hub->woken(waiter->context);
    else if (asleep)
        signal_waiter(waiter);
}

/* Wakes waiters in the order of arrival, from `first` on; those that a message has already woken do
 * not count. */
static void wake_some(struct waiter *first, long count)
{
    for (struct waiter *w = first; w && count > 0; w = TAILQ_NEXT(w, on_channel))
        if (!w->woken) {
            wake(w);
            count--;
        }
}

/* Wakes every waiter to try, because the connection is lost or never answered, and messages with
 * it. The answers to the next subscriptions will wake them once more. */
static void hub_lost(struct waiter_hub *hub)
{
    struct waiter *w;
    hub->online = false;
    TAILQ_FOREACH (w, &hub->all, on_hub)
        wake(w);
}

/* ---- channels; the mutex is held ---- */

static struct bucket *bucket_of(struct waiter_hub *hub, const char *name)
{
    return &hub->buckets[hash_slot(name, BUCKETS)];
}

static struct channel *channel_find(struct waiter_hub *hub, const char *name)
{
    struct channel *channel;
    LIST_FOREACH (channel, bucket_of(hub, name), in_bucket)
        if (strcmp(channel->name, name) == 0)
            break;
    return channel;
}

static void channel_subscribe(struct waiter_hub *hub, struct channel *channel)
{
    assert(hub->online);
    if (hub->asked == hub->answered) /* another join must not hide that the server is silent */
        hub->silent_ms = clock_now_ms();
    channel->request = ++hub->asked;
    if (!redis_send_subscribe(hub->redis, channel->name, hub->sharded))
        hub_lost(hub);
}

static struct channel *channel_make(struct waiter_hub *hub, const char *name)
{
    assert(!channel_find(hub, name));
    struct channel *channel = calloc(1, sizeof *channel);
    if (!channel)
        return NULL;
    snprintf(channel->name, sizeof channel->name, "%s", name);
    TAILQ_INIT(&channel->waiters);
    LIST_INSERT_HEAD(bucket_of(hub, name), channel, in_bucket);
    channel->request = NO_REQUEST;
    return channel;
}

/* Unsubscribes a channel as soon as its last waiter leaves: a busy server should not write messages
 * that nobody reads. A subscription that the server has ended is left alone, because a node that
 * has not the slot would refuse. */
static void channel_drop(struct waiter_hub *hub, struct channel *channel)
{
    assert(TAILQ_EMPTY(&channel->waiters));
    LIST_REMOVE(channel, in_bucket);
    if (hub->online && channel->request != NO_REQUEST &&
        !redis_send_unsubscribe(hub->redis, channel->name, hub->sharded))
        hub_lost(hub);
    free(channel);
}

/* ---- leading; the mutex is held, but not while connecting and sleeping ---- */

/* why_the_subscription_wakes: a release between the busy answer and the subscription sends its
 * message too early. So the waiters try again once the subscription is in force. */
static void lead_ready(struct waiter_hub *hub)
{
    const struct channel *c;
    hub->answered++;
    hub->silent_ms = clock_now_ms();
    for (int i = 0; i < BUCKETS; i++)
        LIST_FOREACH (c, &hub->buckets[i], in_bucket)
            if (c->request == hub->answered)
                wake_some(TAILQ_FIRST(&c->waiters), LONG_MAX);
}

static void lead_message(struct waiter_hub *hub, const char *name, const char *text)
{
    const struct channel *channel = channel_find(hub, name);
    if (channel)
        wake_some(TAILQ_FIRST(&channel->waiters),
                  text[0] == '*' ? LONG_MAX : strtol(text, NULL, 10));
}

/* The server has ended the subscription, unless its answer to an UNSUBSCRIBE overtakes the present
 * waiters' SUBSCRIBE. */
static void lead_unsubscribed(struct waiter_hub *hub, const char *name)
{
    struct channel *channel = channel_find(hub, name);
    if (!channel || channel->request > hub->answered)
        return;
    channel->request = NO_REQUEST;
    wake_some(TAILQ_FIRST(&channel->waiters), LONG_MAX);
}

/* Begins anew after a refusal, because it does not tell of which channel: after a pause, in which
 * the waiters learn where the slot is now, or at once without sharded channels. */
static void lead_refused(struct waiter_hub *hub)
{
    struct cluster_redirect ignored;
    if (!hub->sharded)
        return;
    hub->unsharded = cluster_refusal(redis_error(hub->redis), &ignored) == CLUSTER_NO_REFUSAL;
    if (!hub->unsharded)
        hub->connect_ms = clock_now_ms() + RECONNECT_MS;
    redis_drop(hub->redis);
    hub_lost(hub);
}

static void lead_events(struct waiter_hub *hub)
{
    char channel[CHANNEL_MAX], message[32];
    for (;;) {
        switch (redis_next_event(hub->redis, channel, sizeof channel, message, sizeof message)) {
        case REDIS_EVENT_NONE:
            return;
        case REDIS_EVENT_SUBSCRIBED:
            lead_ready(hub);
            break;
        case REDIS_EVENT_MESSAGE:
            lead_message(hub, channel, message);
            break;
        case REDIS_EVENT_UNSUBSCRIBED:
            lead_unsubscribed(hub, channel);
            break;
        case REDIS_EVENT_REFUSED:
            lead_refused(hub);
            break;
        case REDIS_EVENT_OTHER:
            break;
        }
    }
}

static void subscribe_all(struct waiter_hub *hub)
{
    assert(!hub->online);
    struct channel *c;
    hub->asked = hub->answered = 0;
    hub->sharded = !hub->unsharded;
    hub->unsharded = false; /* the next server may know them */
    hub->online = true;
    for (int i = 0; i < BUCKETS; i++)
        LIST_FOREACH (c, &hub->buckets[i], in_bucket)
            if (hub->online)
                channel_subscribe(hub, c);
}

static void lead_connect(struct waiter_hub *hub)
{
    assert(hub->leader && !hub->online);
    pthread_mutex_unlock(&hub->mutex); /* only the leader touches the connection while offline */
    bool connected = redis_connect(hub->redis) == REDIS_ANSWERED;
    pthread_mutex_lock(&hub->mutex);
    if (connected)
        subscribe_all(hub);
}

/* Goes offline when the connection is lost, or has not answered a SUBSCRIBE in time. */
static void check_online(struct waiter_hub *hub)
{
    if (hub->online && hub->answered < hub->asked &&
        clock_now_ms() - hub->silent_ms > hub->timeout_ms)
        redis_drop(hub->redis);
    if (hub->online && !redis_connected(hub->redis))
        hub_lost(hub);
}

/* Returns the socket to sleep on, or -1. */
static int lead_socket(struct waiter_hub *hub)
{
    assert(hub->leader);
    check_online(hub);
    if (!hub->online && clock_now_ms() >= hub->connect_ms) {
        redis_drop(hub->redis); /* whatever state it is in */
        lead_connect(hub);
    }
    return hub->online ? redis_fd(hub->redis) : -1;
}

/* Ends the lead, or declines it after a signal: signals another sleeping waiter. */
static void resign(struct waiter_hub *hub, const struct waiter *waiter)
{
    if (hub->leader && hub->leader != waiter)
        return;
    struct waiter *w;
    hub->leader = NULL;
    TAILQ_FOREACH (w, &hub->all, on_hub)
        if (w->sleeping && !w->woken) {
            signal_waiter(w);
            return;
        }
}

/* ---- waiters ---- */

static void waiter_free(struct waiter *waiter)
{
    if (waiter && waiter->event_fd >= 0)
        close(waiter->event_fd);
    free(waiter);
}

/* Opens and closes the descriptor with the mutex held, so that a child of fork knows of it. A
 * waiter that joins a channel with a subscription in force begins woken: it looks at once. */
static struct waiter *join(struct waiter_hub *hub, const char *name, void *context)
{
    assert(strlen(name) < CHANNEL_MAX);
    struct channel *channel = NULL;
    struct waiter *waiter = calloc(1, sizeof *waiter);
    pthread_mutex_lock(&hub->mutex);
    if (waiter) {
        waiter->context = context;
        waiter->event_fd = hub->woken ? -1 : eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    }
    if (waiter && (hub->woken || waiter->event_fd >= 0)) {
        channel = channel_find(hub, name);
        if (!channel)
            channel = channel_make(hub, name);
    }
    if (channel) {
        waiter->hub = hub;
        waiter->channel = channel;
        TAILQ_INSERT_TAIL(&channel->waiters, waiter, on_channel);
        TAILQ_INSERT_HEAD(&hub->all, waiter, on_hub);
        if (hub->online && channel->request == NO_REQUEST)
            channel_subscribe(hub, channel);
        waiter->woken = channel->request <= hub->answered;
    } else {
        waiter_free(waiter);
        waiter = NULL;
    }
    pthread_mutex_unlock(&hub->mutex);
    return waiter;
}

/* Subscribes anew where the server has ended the subscription, should the slot be there again. */
static void stay(struct waiter *waiter)
{
    struct waiter_hub *hub = waiter->hub;
    pthread_mutex_lock(&hub->mutex);
    if (hub->online && waiter->channel->request == NO_REQUEST)
        channel_subscribe(hub, waiter->channel);
    pthread_mutex_unlock(&hub->mutex);
}

struct waiter *waiter_join(struct waiter *waiter, struct waiter_hub *hub, const char *name,
                           void *context)
{
    if (waiter && hub && waiter->hub != hub)
        waiter_leave(&waiter, false);
    if (waiter)
        stay(waiter);
    return waiter || !hub ? waiter : join(hub, name, context);
}

/* Leads or follows for one sleep in poll(2). False: cancel_fd is readable. */
static bool sleep_once(struct waiter *waiter, int64_t until_ms, int cancel_fd)
{
    struct waiter_hub *hub = waiter->hub;
    bool leads = hub->leader == waiter;
    int socket_fd = leads ? lead_socket(hub) : -1;
    if (waiter->woken)
        return true;
    struct pollfd fds[] = {{.fd = waiter->event_fd, .events = POLLIN},
                           {.fd = cancel_fd > 0 ? cancel_fd : -1, .events = POLLIN},
                           {.fd = socket_fd, .events = POLLIN}};
    int64_t left_ms = until_ms - clock_now_ms();
    int wait_ms = left_ms > 0 ? (int)left_ms : 0;
    if (leads && socket_fd < 0 && wait_ms > RECONNECT_MS)
        wait_ms = RECONNECT_MS;
    if (leads && hub->answered < hub->asked && wait_ms > hub->timeout_ms)
        wait_ms = hub->timeout_ms;
    assert(!waiter->sleeping && !waiter->signalled);
    waiter->sleeping = true;
    pthread_mutex_unlock(&hub->mutex);
    poll(fds, 3, wait_ms);
    pthread_mutex_lock(&hub->mutex);
    waiter->sleeping = false;
    clear_signal(waiter);
    if (fds[2].revents && socket_fd == redis_fd(hub->redis)) {
        if (!redis_fill(hub->redis))
            hub_lost(hub);
        lead_events(hub);
    }
    return fds[1].revents == 0;
}

bool waiter_sleep(struct waiter *waiter, int wait_ms, int cancel_fd)
{
    assert(wait_ms >= 0);
    struct waiter_hub *hub = waiter->hub;
    int64_t until_ms = clock_now_ms() + wait_ms;
    bool wanted = true;
    pthread_mutex_lock(&hub->mutex);
    waiter->owes = false;
    while (!waiter->woken && wanted) {
        if (!hub->leader)
            hub->leader = waiter;
        wanted = sleep_once(waiter, until_ms, cancel_fd) && clock_now_ms() < until_ms;
    }
    bool woken = waiter->woken;
    waiter->owes = woken;
    waiter->woken = false;
    resign(hub, waiter);
    pthread_mutex_unlock(&hub->mutex);
    return woken;
}

/* Passes only to later waiters: earlier ones had their turn, and two that pass to each other would
 * never sleep. */
void waiter_pass(struct waiter *waiter)
{
    assert(!waiter->sleeping);
    pthread_mutex_lock(&waiter->hub->mutex);
    if (waiter->owes)
        wake_some(TAILQ_NEXT(waiter, on_channel), 1);
    waiter->owes = false;
    pthread_mutex_unlock(&waiter->hub->mutex);
}

void waiter_leave(struct waiter **leaving, bool content)
{
    struct waiter *waiter = *leaving;
    struct waiter_hub *hub = waiter->hub;
    struct channel *channel = waiter->channel;
    *leaving = NULL;
    pthread_mutex_lock(&hub->mutex);
    assert(hub->leader != waiter && !waiter->sleeping);
    TAILQ_REMOVE(&channel->waiters, waiter, on_channel);
    TAILQ_REMOVE(&hub->all, waiter, on_hub);
    if (waiter->woken || (waiter->owes && !content)) /* by a message that it does not act on */
        wake_some(TAILQ_FIRST(&channel->waiters), 1);
    if (TAILQ_EMPTY(&channel->waiters))
        channel_drop(hub, channel);
    waiter_free(waiter);
    pthread_mutex_unlock(&hub->mutex);
}

/* ---- the hub of a loop ---- */

bool waiter_doze(struct waiter *waiter)
{
    assert(waiter->hub->woken && !waiter->sleeping);
    waiter->owes = waiter->woken;
    waiter->sleeping = !waiter->woken;
    waiter->woken = false;
    return waiter->sleeping;
}

void waiter_rise(struct waiter *waiter)
{
    assert(waiter->hub->woken);
    waiter->sleeping = false;
    waiter->owes = waiter->woken;
    waiter->woken = false;
}

bool waiter_hub_turn(struct waiter_hub *hub)
{
    assert(hub->woken);
    if (hub->connecting)
        return false;
    check_online(hub);
    if (hub->online) {
        if (!redis_flush(hub->redis) || !redis_fill(hub->redis))
            hub_lost(hub);
        lead_events(hub);
    }
    hub->connecting = !hub->online && !TAILQ_EMPTY(&hub->all) && clock_now_ms() >= hub->connect_ms;
    if (hub->connecting)
        redis_drop(hub->redis); /* whatever state it is in */
    return hub->connecting;
}

void waiter_hub_connect(struct waiter_hub *hub)
{
    assert(hub->connecting);
    redis_connect(hub->redis);
}

void waiter_hub_connected(struct waiter_hub *hub)
{
    assert(hub->connecting);
    hub->connecting = false;
    hub->connect_ms = clock_now_ms() + RECONNECT_MS;
    if (redis_connected(hub->redis))
        subscribe_all(hub);
}

const struct redis *waiter_hub_redis(const struct waiter_hub *hub)
{
    return hub->connecting ? NULL : hub->redis;
}

int64_t waiter_hub_due_ms(const struct waiter_hub *hub)
{
    if (hub->connecting || TAILQ_EMPTY(&hub->all))
        return INT64_MAX;
    if (!hub->online)
        return hub->connect_ms;
    return hub->answered < hub->asked ? hub->silent_ms + hub->timeout_ms + 1 : INT64_MAX;
}

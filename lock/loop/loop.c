/* Polls for one loop, and runs its threads.
 *
 *   the epoll ◄─ the inbox: jobs done, holds lost, connects done
 *             ◄─ the timer: sleeps over, calls late
 *             ◄─ the pipe of scripts, the hubs of messages
 *             ◄─ descriptors that waiters of other kinds watch */
#include "lock/loop/loop.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/url.h"
#include "lock/redis/server.h"
#include "lock/redis/waiter.h"

enum { EVENTS_MAX = 64 };

/* ---- the inbox: on any thread ---- */

void loop_ring(struct seclock_loop *loop)
{
    eventfd_write(loop->inbox_fd, 1);
}

void loop_keep_result(struct operation *operation, enum seclock_result result)
{
    operation->result = result;
    free(operation->error);
    operation->error = result == SECLOCK_OK ? NULL : strdup(seclock_error());
}

static void on_job(struct job *job)
{
    struct operation *operation =
        (struct operation *)(void *)((char *)job - offsetof(struct operation, job));
    struct seclock_loop *loop = operation->loop;
    loop_keep_result(operation, operation->work(operation));
    pthread_mutex_lock(&loop->mutex);
    TAILQ_INSERT_TAIL(&loop->done, operation, in_done);
    loop_ring(loop);
    pthread_mutex_unlock(&loop->mutex);
}

void loop_lose(struct operation *operation)
{
    struct seclock_loop *loop = operation->loop;
    pthread_mutex_lock(&loop->mutex);
    if (!operation->lost)
        TAILQ_INSERT_TAIL(&loop->lost, operation, in_lost);
    operation->lost = true;
    loop_ring(loop);
    pthread_mutex_unlock(&loop->mutex);
}

static void on_connected(struct connecting *connecting)
{
    struct seclock_loop *loop = connecting->loop;
    pthread_mutex_lock(&loop->mutex);
    connecting->done = true;
    loop_ring(loop);
    pthread_mutex_unlock(&loop->mutex);
}

static void connect_pipe(struct job *job)
{
    struct connecting *connecting = (struct connecting *)(void *)job;
    script_pipe_connect(connecting->loop->pipe);
    on_connected(connecting);
}

static void connect_hub(struct job *job)
{
    struct connecting *connecting = (struct connecting *)(void *)job;
    waiter_hub_connect(connecting->hub);
    on_connected(connecting);
}

_Static_assert(offsetof(struct connecting, job) == 0, "a connect is found by its job");

/* ---- what operations use ---- */

/* A family's jobs have threads of their own: a silent MySQL delays nothing in Redis. */
static bool add_job(struct seclock_loop *loop, enum seclock_kind family, struct job *job)
{
    if (!loop->jobs[family])
        loop->jobs[family] = jobs_open();
    return loop->jobs[family] && jobs_add(loop->jobs[family], job);
}

bool loop_job(struct operation *operation, enum seclock_result (*work)(struct operation *))
{
    operation->work = work;
    operation->job.run = on_job;
    return add_job(operation->loop, operation->handle->family, &operation->job);
}

static struct redis_server *server_of(struct seclock_loop *loop)
{
    const struct lock_driver *driver;
    void *self;
    enum seclock_result result = client_driver(loop->client, SECLOCK_KIND_SIMPLE, &driver, &self);
    return result == SECLOCK_OK ? self : NULL;
}

struct script_pipe *loop_pipe(struct seclock_loop *loop)
{
    struct redis_server *server = loop->tried_pipe ? NULL : server_of(loop);
    loop->tried_pipe = true;
    if (server)
        loop->pipe = script_pipe_open(redis_server_url(server), redis_server_timeout_ms(server));
    return loop->pipe;
}

/* Only marks the waiter, because the hub is in the middle of its lists. */
static void on_message(void *context)
{
    struct operation *operation = context;
    due_put(&operation->loop->sleeping, &operation->timer, 0);
}

static struct waiter_hub *add_hub(struct seclock_loop *loop, const struct redis_server *server,
                                  const struct url_server *node)
{
    struct loop_hub *added = calloc(1, sizeof *added);
    if (!added)
        return NULL;
    added->source.fd = -1;
    added->connecting = (struct connecting){.job.run = connect_hub, .loop = loop};
    added->connecting.hub = waiter_hub_open(redis_server_url(server), node->port > 0 ? node : NULL,
                                            redis_server_timeout_ms(server), on_message);
    if (!added->connecting.hub) {
        free(added);
        return NULL;
    }
    SLIST_INSERT_HEAD(&loop->hubs, added, in_loop);
    return added->connecting.hub;
}

struct waiter_hub *loop_hub(struct seclock_loop *loop, const char *channel)
{
    const struct loop_hub *i;
    struct url_server node;
    struct redis_server *server = server_of(loop);
    int count = 0;
    if (!server || !redis_server_node(server, channel, &node))
        return NULL;
    SLIST_FOREACH(i, &loop->hubs, in_loop)
    {
        if (waiter_hub_is_at(i->connecting.hub, &node))
            return i->connecting.hub;
        count++;
    }
    return count < WAITER_HUBS_MAX ? add_hub(loop, server, &node) : NULL;
}

void loop_sleep(struct operation *operation, int ms, int wait_fd)
{
    struct seclock_loop *loop = operation->loop;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = operation};
    due_put(&loop->sleeping, &operation->timer, clock_now_ns() + ms * CLOCK_NS_PER_MS);
    if (wait_fd >= 0 && epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, wait_fd, &event) == 0)
        operation->wait_fd = wait_fd;
}

void loop_stop_sleep(struct operation *operation)
{
    struct seclock_loop *loop = operation->loop;
    due_put(&loop->sleeping, &operation->timer, INT64_MAX);
    if (operation->wait_fd >= 0)
        epoll_ctl(loop->epoll_fd, EPOLL_CTL_DEL, operation->wait_fd, NULL);
    operation->wait_fd = -1;
}

void loop_forget_loss(struct operation *operation)
{
    struct seclock_loop *loop = operation->loop;
    pthread_mutex_lock(&loop->mutex);
    if (operation->lost)
        TAILQ_REMOVE(&loop->lost, operation, in_lost);
    operation->lost = false;
    pthread_mutex_unlock(&loop->mutex);
}

/* ---- one turn ---- */

/* Takes the operations whose jobs are done, as many as there are now. */
static void take_done(struct seclock_loop *loop, struct operations *done_out)
{
    struct loop_hub *i;
    pthread_mutex_lock(&loop->mutex);
    TAILQ_CONCAT(done_out, &loop->done, in_done);
    if (loop->pipe_connecting.done)
        script_pipe_connected(loop->pipe);
    loop->pipe_connecting.done = false;
    SLIST_FOREACH(i, &loop->hubs, in_loop)
    {
        if (i->connecting.done)
            waiter_hub_connected(i->connecting.hub);
        i->connecting.done = false;
    }
    pthread_mutex_unlock(&loop->mutex);
}

static bool is_source(const struct seclock_loop *loop, const void *from)
{
    const struct loop_hub *i = SLIST_FIRST(&loop->hubs);
    while (i && from != &i->source)
        i = SLIST_NEXT(i, in_loop);
    return i || from == &loop->pipe_source;
}

/* Reads which of the loop's descriptors have something, and what the small ones have. */
static void read_all(struct seclock_loop *loop)
{
    struct epoll_event events[EVENTS_MAX];
    eventfd_t ignored;
    uint64_t ends;
    int count = epoll_wait(loop->epoll_fd, events, EVENTS_MAX, 0);
    for (int i = 0; i < count; i++) {
        void *from = events[i].data.ptr;
        if (from == &loop->inbox_fd) {
            eventfd_read(loop->inbox_fd, &ignored);
        } else if (from == &loop->timer_fd) {
            if (read(loop->timer_fd, &ends, sizeof ends) > 0)
                loop->timer_ns = INT64_MAX;
        } else if (is_source(loop, from)) {
            ((struct source *)from)->ready = true;
        } else {
            due_put(&loop->sleeping, &((struct operation *)from)->timer, 0);
        }
    }
}

struct operation *loop_awake(const struct seclock_loop *loop)
{
    const struct due *due = due_first(&loop->sleeping);
    return due && due->at_ns <= clock_now_ns() ? due->handle->operation : NULL;
}

/* Polls the client's connection, if it has one, and nothing else in its place. A closed descriptor
 * leaves the epoll by itself. */
static void watch_source(struct seclock_loop *loop, struct source *source,
                         const struct redis *redis)
{
    int fd = redis ? redis_fd(redis) : -1;
    bool writing = fd >= 0 && redis_unsent(redis);
    uint64_t connects = fd >= 0 ? redis_stats(redis).connects : 0;
    struct epoll_event event = {.events = EPOLLIN | (writing ? EPOLLOUT : 0), .data.ptr = source};
    bool known = source->fd == fd && source->connects == connects;
    if (fd >= 0 && (!known || source->writing != writing))
        epoll_ctl(loop->epoll_fd, known ? EPOLL_CTL_MOD : EPOLL_CTL_ADD, fd, &event);
    *source = (struct source){.fd = fd, .writing = writing, .connects = connects};
}

static void watch_sources(struct seclock_loop *loop)
{
    if (loop->pipe)
        watch_source(loop, &loop->pipe_source, script_pipe_redis(loop->pipe));
    struct loop_hub *i;
    SLIST_FOREACH(i, &loop->hubs, in_loop)
    watch_source(loop, &i->source, waiter_hub_redis(i->connecting.hub));
}

static int64_t earlier(int64_t ns, int64_t ms)
{
    return ms < ns / CLOCK_NS_PER_MS ? ms * CLOCK_NS_PER_MS : ns;
}

/* Sets the timer, unless it ends early enough. */
static void set_timer(struct seclock_loop *loop)
{
    const struct due *first = due_first(&loop->sleeping);
    int64_t due_ns = first ? first->at_ns : INT64_MAX;
    if (loop->pipe)
        due_ns = earlier(due_ns, script_pipe_due_ms(loop->pipe));
    const struct loop_hub *i;
    SLIST_FOREACH(i, &loop->hubs, in_loop)
    due_ns = earlier(due_ns, waiter_hub_due_ms(i->connecting.hub));
    if (due_ns >= loop->timer_ns)
        return;
    struct itimerspec timer = {.it_value = clock_timespec(due_ns > 0 ? due_ns : 1)};
    timerfd_settime(loop->timer_fd, TFD_TIMER_ABSTIME, &timer, NULL);
    loop->timer_ns = due_ns;
}

static void serve_hub(struct seclock_loop *loop, struct loop_hub *served, enum seclock_kind redis,
                      int64_t now_ms)
{
    struct waiter_hub *hub = served->connecting.hub;
    if ((served->source.ready || waiter_hub_due_ms(hub) <= now_ms) && waiter_hub_turn(hub) &&
        !add_job(loop, redis, &served->connecting.job))
        waiter_hub_connected(hub);
    served->source.ready = false;
}

/* Serves the pipe and the hubs, if they have something to read or something is due. A connect that
 * finds no thread has failed. */
static void serve_redis(struct seclock_loop *loop)
{
    enum seclock_kind redis = driver_family(SECLOCK_KIND_SIMPLE);
    int64_t now_ms = clock_now_ms();
    if (loop->pipe && (loop->pipe_source.ready || script_pipe_due_ms(loop->pipe) <= now_ms) &&
        script_pipe_turn(loop->pipe) && !add_job(loop, redis, &loop->pipe_connecting.job))
        script_pipe_connected(loop->pipe);
    loop->pipe_source.ready = false;
    struct loop_hub *i;
    SLIST_FOREACH(i, &loop->hubs, in_loop)
    serve_hub(loop, i, redis, now_ms);
}

void loop_read(struct seclock_loop *loop, struct operations *done_out)
{
    read_all(loop);
    take_done(loop, done_out);
    serve_redis(loop);
}

void loop_settle(struct seclock_loop *loop)
{
    serve_redis(loop);
    watch_sources(loop);
    set_timer(loop);
}

/* ---- open and close ---- */

static bool watch_own(struct seclock_loop *loop, int fd, void *place)
{
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = place};
    return fd >= 0 && epoll_ctl(loop->epoll_fd, EPOLL_CTL_ADD, fd, &event) == 0;
}

struct seclock_loop *loop_open(struct seclock_client *client, struct lock_core *core)
{
    struct seclock_loop *loop = calloc(1, sizeof *loop);
    if (!loop)
        return NULL;
    core_hold(core);
    loop->client = client;
    loop->core = core;
    loop->timer_ns = INT64_MAX;
    loop->pipe_source.fd = -1;
    loop->pipe_connecting = (struct connecting){.job.run = connect_pipe, .loop = loop};
    TAILQ_INIT(&loop->all);
    TAILQ_INIT(&loop->ended);
    TAILQ_INIT(&loop->done);
    TAILQ_INIT(&loop->lost);
    pthread_mutex_init(&loop->mutex, NULL);
    loop->epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    loop->inbox_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    loop->timer_fd = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
    if (watch_own(loop, loop->inbox_fd, &loop->inbox_fd) &&
        watch_own(loop, loop->timer_fd, &loop->timer_fd))
        return loop;
    loop_close(loop, NULL);
    return NULL;
}

/* In a child of fork only the descriptors are closed: the parent's threads may have been changing
 * the rest. */
static void close_descriptors(const struct seclock_loop *loop)
{
    const int fds[] = {loop->epoll_fd, loop->inbox_fd, loop->timer_fd};
    for (size_t i = 0; i < sizeof fds / sizeof *fds; i++)
        if (fds[i] >= 0)
            close(fds[i]);
}

static void end_threads(struct seclock_loop *loop)
{
    for (int i = 0; i < SECLOCK_KIND_COUNT; i++)
        jobs_close(&loop->jobs[i]);
    if (loop->pipe && !script_pipe_redis(loop->pipe))
        script_pipe_connected(loop->pipe);
    const struct loop_hub *i;
    SLIST_FOREACH(i, &loop->hubs, in_loop)
    if (!waiter_hub_redis(i->connecting.hub))
        waiter_hub_connected(i->connecting.hub);
}

void loop_close(struct seclock_loop *loop, void (*abandon)(struct operation *operation))
{
    struct operation *operation;
    struct loop_hub *hub;
    if (loop->core->generation != process_generation()) {
        close_descriptors(loop);
        return;
    }
    end_threads(loop);
    while ((operation = TAILQ_FIRST(&loop->all)) != NULL) {
        assert(abandon);
        abandon(operation);
        TAILQ_REMOVE(&loop->all, operation, in_loop);
        operation->loop = NULL;
    }
    script_pipe_close(&loop->pipe);
    while ((hub = SLIST_FIRST(&loop->hubs)) != NULL) {
        SLIST_REMOVE_HEAD(&loop->hubs, in_loop);
        waiter_hub_close(&hub->connecting.hub);
        free(hub);
    }
    due_heap_free(&loop->sleeping);
    close_descriptors(loop);
    pthread_mutex_destroy(&loop->mutex);
    core_let_go(loop->core);
    free(loop);
}

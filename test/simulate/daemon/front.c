/* Stands for a daemon's HTTP threads: takes requests, sends them to the workers, and answers them
 * when they come back or their deadline has come, as service/http/ does.
 *
 * The handlers, the queue, the way back and the deadline are the daemon's own; here are the turns
 * of service/http/loop.c and the steps of service/http/exchange.c without libmicrohttpd. */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "service/calls/calls.h"
#include "test/simulate/daemon/daemon.h"
#include "test/simulate/machine/loop.h"
#include "test/simulate/promise.h"
#include "test/simulate/promise_events.h"
#include "test/simulate/promise_request.h"
#include "test/simulate/servers/seam_thread.h"
#include "test/simulate/story.h"

struct front {
    struct service *service;
    struct process *process;
    struct request_home home;
    struct request *free_requests;
    struct asked *arrived, **arrived_end; /* not read yet, by asked->next */
    struct asked *waiting, **waiting_end; /* in flight, in the order of their arrival */
    struct request *first, *last;         /* orders of this turn, for the queue */
    size_t in_flight;                     /* requests that have not come back */
    int64_t now_ns;                       /* of this turn */
    bool ending;                          /* time is up: every deadline counts as passed */
    bool ended;
};

static struct front *fronts[PROCESSES_MAX];

/* A connection and a route are what its request knows of them: here, who asks. */
static void attach(struct request *request, struct asked *asked)
{
    request->http.connection = (struct http_connection *)asked;
    request->http.route = (const struct route *)asked;
}

struct asked *front_asked(const struct stock_order *order)
{
    size_t offset = offsetof(struct request, order);
    const struct request *request = (const void *)((const char *)order - offset);
    return (struct asked *)(uintptr_t)request->http.route;
}

static enum call_kind kind_of(const struct asked *asked)
{
    static const enum call_kind kinds[ASKED_KINDS] = {
        [ASKED_ORDER] = CALL_ORDER,   [ASKED_STOCK] = CALL_LOOKUP,  [ASKED_PAY] = CALL_PAYMENT,
        [ASKED_CANCEL] = CALL_CANCEL, [ASKED_REFUND] = CALL_CANCEL, [ASKED_EXTEND] = CALL_PAYMENT,
        [ASKED_EVENTS] = CALL_EVENTS, [ASKED_UNPAY] = CALL_CANCEL,
    };
    return kinds[asked->kind];
}

static struct queue *queue_of(const struct front *front, enum call_kind kind)
{
    return kind == CALL_ORDER ? front->service->orders : front->service->calls[kind];
}

/* ---- requests ---- */

static struct request *request_new(struct front *front, struct asked *asked)
{
    struct request *request = front->free_requests;
    if (request) {
        front->free_requests = request->queue_next;
    } else {
        request = calloc(1, sizeof *request);
        request->home = &front->home;
    }
    memset(&request->http, 0, offsetof(struct request_http, inline_body));
    atomic_store(&request->state, REQUEST_RECEIVING);
    trace_begin(&request->trace, NULL, NULL);
    request->call.changes = request->call.again = false;
    request->arrived_ns = request->stage_ns = request->http.complete_ns = front->now_ns;
    attach(request, asked);
    return request;
}

static void request_free(struct front *front, struct request *request)
{
    answer_clear(&request->answer);
    request->queue_next = front->free_requests;
    front->free_requests = request;
}

static void tell(struct asked *asked, const struct answer *answer, bool late)
{
    asked->request = NULL;
    promise_told(asked, answer, late);
    task_signal(asked, true);
}

/* ---- a turn ---- */

static void take_returned(struct front *front)
{
    struct request *request = atomic_exchange(&front->home.returned, NULL);
    while (request) {
        struct request *next = request->queue_next;
        assert(front->in_flight > 0);
        front->in_flight--;
        if (request->http.connection)
            ((struct asked *)request->http.connection)->returned = true;
        else
            request_free(front, request);
        request = next;
    }
}

static enum call_start handle_order(struct request *request, const struct asked *asked,
                                    struct call call)
{
    char body[128];
    snprintf(body, sizeof body, "{\"sku\":\"%s\",\"user_id\":\"%s\",\"qty\":%u}", asked->sku,
             asked->user_id, asked->qty);
    call.body = body;
    call.body_length = strlen(body);
    call.key = asked->key[0] != '\0' ? asked->key : NULL;
    return call_order_post(request, &call);
}

/* Its body, empty where nothing is named. */
static void write_body(const struct asked *asked, char *body, size_t size)
{
    char expires_at[LEDGER_TIME_SIZE];
    body[0] = '\0';
    if (asked->kind == ASKED_EXTEND) {
        ledger_time_format(asked->expires_ms, expires_at);
        snprintf(body, size, "{\"expires_at\":\"%s\"}", expires_at);
    } else if (asked->kind == ASKED_REFUND && asked->keep > 0) {
        snprintf(body, size, "{\"payment_ref\":\"%s\",\"restock\":%s,\"keep\":%u}", asked->ref,
                 asked->restock ? "true" : "false", asked->keep);
    } else if (asked->kind == ASKED_REFUND) {
        snprintf(body, size, "{\"payment_ref\":\"%s\",\"restock\":%s}", asked->ref,
                 asked->restock ? "true" : "false");
    } else if (asked->ref[0] != '\0') {
        snprintf(body, size, "{\"payment_ref\":\"%s\"}", asked->ref);
    } else if (asked->keep > 0) {
        snprintf(body, size, "{\"keep\":%u}", asked->keep);
    }
}

static enum call_start handle_change(struct request *request, const struct asked *asked,
                                     struct call call)
{
    static const struct {
        const char *name;
        enum call_start (*start)(struct request *request, const struct call *call);
    } changes[ASKED_KINDS] = {
        [ASKED_PAY] = {"pay", call_state_pay},
        [ASKED_CANCEL] = {"cancel", call_state_cancel},
        [ASKED_REFUND] = {"refund", call_state_refund},
        [ASKED_UNPAY] = {"unpay", call_state_unpay},
        [ASKED_EXTEND] = {"extend", call_state_extend},
    };
    char tail[40], body[128];
    assert(changes[asked->kind].start); /* the other kinds change no order */
    snprintf(tail, sizeof tail, "%llu/%s", (unsigned long long)asked->order_id,
             changes[asked->kind].name);
    write_body(asked, body, sizeof body);
    call.tail = tail;
    call.body = body;
    call.body_length = strlen(body);
    return changes[asked->kind].start(request, &call);
}

static enum call_start handle_events(struct request *request, const struct asked *asked,
                                     struct call call)
{
    char after[48], limit[24], wait_s[24];
    snprintf(after, sizeof after, "%llu.%llu", (unsigned long long)asked->after,
             (unsigned long long)promise_feed_mark(asked->after));
    snprintf(limit, sizeof limit, "%u", asked->limit);
    snprintf(wait_s, sizeof wait_s, "%u", asked->wait_s);
    call.parameters[0] = (struct call_parameter){"after", after};
    call.parameters[1] = (struct call_parameter){"limit", limit};
    call.parameters[2] = (struct call_parameter){"wait_s", wait_s};
    call.parameter_count = 3;
    return call_events(request, &call);
}

static enum call_start handle(struct front *front, struct request *request,
                              const struct asked *asked)
{
    char tail[40] = "";
    struct call call = {.service = front->service, .now_ns = front->now_ns, .tail = tail};
    request->order.address[0] = '\0';
    if (asked->kind == ASKED_ORDER)
        return handle_order(request, asked, call);
    if (asked->kind == ASKED_EVENTS)
        return handle_events(request, asked, call);
    if (asked->kind != ASKED_STOCK)
        return handle_change(request, asked, call);
    strcpy(tail, asked->sku);
    return call_stock_get(request, &call);
}

static void send_on(struct front *front, struct request *request, struct asked *asked)
{
    enum call_kind kind = kind_of(asked);
    bool moved = request_move(request, REQUEST_RECEIVING, REQUEST_QUEUED);
    assert(moved);
    request_set_deadline(request, &front->service->config, kind);
    request->queue_next = NULL;
    front->in_flight++;
    asked->request = request;
    asked->next = NULL;
    *front->waiting_end = asked;
    front->waiting_end = &asked->next;
    if (kind != CALL_ORDER) {
        queue_push(queue_of(front, kind), request, request);
        return;
    }
    if (front->last)
        front->last->queue_next = request;
    else
        front->first = request;
    front->last = request;
}

static void start(struct front *front, struct asked *asked)
{
    struct request *request = request_new(front, asked);
    asked->read_ns = front->now_ns;
    enum call_start next = handle(front, request, asked);
    struct queue *queue = queue_of(front, kind_of(asked));
    request->flow = next == START_TO_ORDER_WORKER ? queue_flow(request->order.sku) : 0;
    if (next != START_ANSWERED && !front->ending && queue_reserve(queue, request->flow)) {
        send_on(front, request, asked);
        return;
    }
    if (next != START_ANSWERED)
        answer_problem(&request->answer, front->ending ? PROBLEM_UNAVAILABLE : PROBLEM_OVERLOADED);
    tell(asked, &request->answer, false);
    request_free(front, request);
}

static void read_arrived(struct front *front)
{
    struct asked *asked = front->arrived, *next;
    front->arrived = NULL;
    front->arrived_end = &front->arrived;
    for (; asked; asked = next) {
        next = asked->next;
        start(front, asked);
    }
}

static void submit_orders(struct front *front)
{
    if (front->first)
        queue_push(front->service->orders, front->first, front->last);
    front->first = front->last = NULL;
}

/* The client of a request whose deadline has come gets an answer of its own, and the request none
 * when it comes back. */
static void expire(struct front *front, struct asked *asked)
{
    struct request *request = asked->request;
    struct answer answer;
    request->http.connection = NULL;
    asked->hurried = front->ending;
    asked->held = atomic_load(&request->state) != REQUEST_QUEUED;
    request_answer_late(request, kind_of(asked), atomic_load(&front->service->sold_ns), &answer);
    tell(asked, &answer, true);
    answer_clear(&answer);
}

static void look_for_answers(struct front *front)
{
    struct asked **at = &front->waiting;
    while (*at) {
        struct asked *asked = *at;
        struct request *request = asked->request;
        if (!asked->returned && request->http.until_ns > front->now_ns && !front->ending) {
            at = &asked->next;
            continue;
        }
        *at = asked->next;
        if (asked->returned) {
            tell(asked, &request->answer, false);
            request_free(front, request);
        } else {
            expire(front, asked);
        }
    }
    front->waiting_end = at;
}

static void turn(struct front *front)
{
    front->now_ns = clock_now_ns();
    take_returned(front);
    look_for_answers(front);
    read_arrived(front);
    submit_orders(front);
}

/* ---- the thread ---- */

/* When the next deadline comes; `ns` if that is sooner. */
static int64_t due_ns(const struct front *front, int64_t ns)
{
    for (const struct asked *asked = front->waiting; asked; asked = asked->next)
        ns = asked->request->http.until_ns < ns ? asked->request->http.until_ns : ns;
    return ns;
}

static void drain(struct front *front)
{
    int64_t until_ns = clock_now_ns() + front->service->config.drain_ms * CLOCK_NS_PER_MS;
    turn(front);
    while (front->in_flight > 0 && front->now_ns < until_ns) {
        seam_wake_await(front->home.wake_fd, due_ns(front, until_ns));
        turn(front);
    }
    front->ending = true;
    turn(front);
}

static void front_main(void *argument)
{
    struct front *front = argument;
    turn(front);
    while (atomic_load(&front->service->phase) < SERVICE_DRAINS) {
        seam_wake_await(front->home.wake_fd, due_ns(front, LOOP_FOREVER));
        turn(front);
    }
    drain(front);
    front->ended = true;
    task_signal(front, true);
}

struct front *front_start(struct service *service)
{
    char name[TASK_NAME_SIZE];
    struct front *front = calloc(1, sizeof *front);
    front->service = service;
    front->process = task_current()->process;
    front->arrived_end = &front->arrived;
    front->waiting_end = &front->waiting;
    front->home.wake_fd = seam_wake_fd(front->process);
    fronts[front->process->number] = front;
    snprintf(name, sizeof name, "%d http", front->process->number);
    task_start(front->process, name, front_main, front, 0);
    return front;
}

void front_drain(struct front *front)
{
    request_home_wake(&front->home);
    while (!front->ended)
        task_await_signal(front, LOOP_FOREVER);
}

size_t front_requests(const struct front *front)
{
    return front->in_flight;
}

void front_close(struct front *front)
{
    take_returned(front);
    if (front->in_flight > 0)
        promise_break("%zu requests did not come back from the workers of daemon %d",
                      front->in_flight, front->process->number);
}

/* ---- clients ---- */

bool front_ask(struct process *process, struct asked *asked)
{
    if (!daemon_service(process))
        return false;
    struct front *front = fronts[process->number];
    asked->next = NULL;
    *front->arrived_end = asked;
    front->arrived_end = &asked->next;
    request_home_wake(&front->home);
    return true;
}

void front_await(const struct asked *asked)
{
    while (!asked->answered && !promise_asked_lost(asked))
        task_await_signal(asked, loop_now_ns() + 100 * LOOP_MS);
}

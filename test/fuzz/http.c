/* Fuzzes a connection: its bytes go through libmicrohttpd, our HTTP thread, every handler and every
 * worker's code, to a stock whose Redis and ledger refuse every connection. A byte 0x1e stands for
 * a moment: what precedes it arrives by itself.
 *
 * The answers are whole and bounded; each is one of ours, with a stable code where it refuses.
 * Nothing is accepted, as there is no ledger. When the connection has ended, nothing of it is left:
 * no request, no place in a queue, no place in the room. */
#define _GNU_SOURCE /* memmem */
#include "base/worker.h"

/* This process drives the HTTP thread itself, turn by turn: its parts are private to that file. */
#define worker_start(worker, run, context) ((void)(run), true)
#include "service/http/loop.c" /* NOLINT: to reach what is static in it */
#undef worker_start

#include <netinet/in.h>

#include "service/request/order_answer.h"
#include "service/request/faults.h"
#include "service/workers/health.h"
#include "service/live/live.h"
#include "stock/stock.h"
#include "test/fuzz/fuzz.h"
#include "test/fuzz/fuzz_service.h"

enum {
    MOMENT = 0x1e,
    TURNS = 3,       /* after each piece of input */
    TURNS_MAX = 400, /* until the connection has ended */
    OUTPUT_MAX = 1 << 22,
    NODE_UNTIL_S = 1000000,
};

/* ---- what stands in for the threads of health, and for the live thread ---- */

enum health_state health_state(const struct health *health, enum health_server server,
                               int64_t now_ns)
{
    (void)health;
    (void)server;
    (void)now_ns;
    return HEALTH_DOWN;
}

bool health_durable(const struct health *health)
{
    (void)health;
    return true;
}

bool health_ready(const struct health *health, int64_t now_ns)
{
    return health_state(health, HEALTH_LEDGER, now_ns) == HEALTH_OK;
}

bool health_news(const struct health *health)
{
    (void)health;
    return true;
}

const char *health_word(enum health_state state)
{
    (void)state;
    return "down";
}

const char *health_place(const struct health *health, enum health_server server)
{
    (void)health;
    (void)server;
    return "127.0.0.1:6379";
}

int64_t health_oldest_write_ms(const struct health *health)
{
    (void)health;
    return 0;
}

int64_t health_took_ns(const struct health *health, enum health_server server)
{
    (void)health;
    (void)server;
    return -1;
}

struct prepared *live_page(struct live *live)
{
    (void)live;
    return NULL;
}

void live_process(struct live *live, struct process_stats *stats_out)
{
    (void)live;
    process_stats_read(stats_out);
}

void live_figures(struct live *live, struct live_figures *figures_out)
{
    (void)live;
    memset(figures_out, 0, sizeof *figures_out);
}

bool live_refunds(struct live *live, struct ledger_refunds_due *refunds_out)
{
    (void)live;
    memset(refunds_out, 0, sizeof *refunds_out);
    return false;
}

void live_print_events(struct live *live, FILE *page)
{
    (void)live;
    (void)page;
}

/* ---- the service, its HTTP thread and its workers ---- */

static struct service *service;
static struct http_thread *thread;
static struct service_worker worker;

static void give_back(struct queue *queue, struct request **requests, size_t count)
{
    for (size_t i = 0; i < count; i++)
        queue_leave(queue, requests[i]->flow);
    if (count > 0)
        request_return_all(requests, count);
}

/* As service/workers/calls.c does it, one request at a time. */
static void carry_call(struct queue *queue, struct request *request)
{
    if (request_move(request, REQUEST_QUEUED, REQUEST_TAKEN)) {
        faults_begin(worker.stock);
        request->call.work(&worker, &request, 1);
        assert(!request->call.again && request->answer.status == 503);
        request_move(request, REQUEST_TAKEN, REQUEST_DONE);
    }
    give_back(queue, &request, 1);
}

/* As service/workers/orders.c does it. Without servers nothing is sold, and nothing is in doubt. */
static void carry_order(struct request *request)
{
    uint64_t now_ms;
    request->order.order_id = order_ids_reserve(&service->ids, 1, &now_ms);
    request->order.created_ms = (int64_t)now_ms;
    if (request_move(request, REQUEST_QUEUED, REQUEST_TAKEN)) {
        struct stock_order *order = &request->order;
        faults_begin(worker.stock);
        do
            stock_sell(worker.stock, &order, 1);
        while (order->outcome == STOCK_AGAIN);
        assert(order->outcome == STOCK_UNAVAILABLE);
        if (request_move(request, REQUEST_TAKEN, REQUEST_DONE))
            order_answer(request, faults_problem(worker.stock));
    }
    give_back(service->orders, &request, 1);
}

static void carry_all(void)
{
    struct request *request;
    while (queue_waiting(service->orders) && queue_take(service->orders, &request, 1, 0, 0) == 1)
        carry_order(request);
    for (int kind = 0; kind < CALL_KINDS; kind++)
        while (queue_waiting(service->calls[kind]) &&
               queue_take(service->calls[kind], &request, 1, 0, 0) == 1)
            carry_call(service->calls[kind], request);
}

static void open_worker(void)
{
    char error[256];
    const struct order_id_lease lease = {
        .node = 1,
        .from_ms = 0,
        .to_ms = ORDER_ID_LAST_MS,
        .until_ns = clock_boot_ns() + NODE_UNTIL_S * INT64_C(1000000000),
    };
    order_ids_lease(&service->ids, &lease);
    worker.service = service;
    worker.stock = stock_open(&service->stock, service->sale_cache, error, sizeof error);
    assert(worker.stock);
}

static void open_all(void)
{
    char error[256];
    struct listener listener;
    service = fuzz_service();
    bool bound = listener_bind(&listener, "127.0.0.1:0", 1, LISTENER_OWN, error, sizeof error);
    assert(bound);
    bool listens = listener_listen(&listener);
    assert(listens);
    static struct http_room room = {ROUTE_ALL, "http-thread", .most = 16};
    room.use = &service->public_use;
    atomic_store(&room.use->max, room.most);
    thread = http_start(service, &room, listener.fds[0]);
    assert(thread);
    open_worker();
}

/* ---- what comes back ---- */

static struct {
    char bytes[OUTPUT_MAX];
    size_t length;
} output;

static void read_output(int fd)
{
    for (;;) {
        assert(output.length < OUTPUT_MAX);
        ssize_t got =
            recv(fd, output.bytes + output.length, OUTPUT_MAX - output.length, MSG_DONTWAIT);
        if (got <= 0)
            return;
        output.length += (size_t)got;
    }
}

/* The value of a header within [at, end), or NULL. */
static const char *header(const char *at, const char *end, const char *name)
{
    size_t length = strlen(name);
    while (at && at < end && strncasecmp(at, name, length) != 0) {
        at = memmem(at, (size_t)(end - at), "\r\n", 2);
        at = at ? at + 2 : NULL;
    }
    return at && at < end ? at + length : NULL;
}

/* Checks one answer, and returns where the next one begins. */
static const char *check_answer(const char *at, const char *end)
{
    static const char problem[] = "application/problem+json";
    const char *head = memmem(at, (size_t)(end - at), "\r\n\r\n", 4);
    assert(end - at > 12 && strncmp(at, "HTTP/1.", 7) == 0 && head);
    unsigned status = (unsigned)strtoul(at + 9, NULL, 10);
    const char *body = head + 4;
    if (status == 100)
        return body;
    const char *type = header(at, head, "Content-Type: ");
    const char *length_text = header(at, head, "Content-Length: ");
    assert(length_text && type); /* libmicrohttpd's own pages have no type */
    size_t length = strtoul(length_text, NULL, 10);
    bool headless = (size_t)(end - body) < length || /* of HEAD */
                    (length > 0 && end - body >= 7 && strncmp(body, "HTTP/1.", 7) == 0);
    if (headless)
        return body;
    bool refused = strncmp(type, problem, sizeof problem - 1) == 0;
    assert(status == 200 || (status == 503 && !refused) || fuzz_is_problem(body, length, status));
    return body + length;
}

static void check_output(void)
{
    const char *at = output.bytes, *end = at + output.length;
    while (at < end)
        at = check_answer(at, end);
    assert(at == end);
}

/* ---- one connection ---- */

static void go_on(int fd, int turns)
{
    for (int i = 0; i < turns; i++) {
        thread->runs_due++;         /* so that the turn does not wait */
        thread->hangups_due_ns = 0; /* the daemon looks every 50 ms, which turns here do not last */
        turn(thread);
        carry_all();
        read_output(fd);
    }
}

static int connect_client(void)
{
    int fds[2];
    struct sockaddr_in from = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) != 0)
        abort();
    thread->now_ns = clock_now_ns();
    enum MHD_Result added =
        MHD_add_connection(thread->daemon, fds[0], (struct sockaddr *)&from, sizeof from);
    assert(added == MHD_YES && thread->connections == 1);
    return fds[1];
}

static void send_pieces(int fd, const uint8_t *data, size_t size)
{
    while (size > 0) {
        const uint8_t *moment = memchr(data, MOMENT, size);
        size_t length = moment ? (size_t)(moment - data) : size;
        send(fd, data, length, MSG_NOSIGNAL | MSG_DONTWAIT);
        go_on(fd, TURNS);
        size_t used = length + (moment != NULL);
        data += used;
        size -= used;
    }
}

static void check_nothing_left(void)
{
    assert(thread->connections == 0 && thread->in_flight == 0);
    assert(queue_depth(service->orders) == 0);
    for (int kind = 0; kind < CALL_KINDS; kind++)
        assert(queue_depth(service->calls[kind]) == 0);
    for (size_t i = 0; i < HTTP_LINES; i++)
        assert(thread->fair.lines[i].held == 0);
    for (int i = 0; i < CONNECTION_STATES; i++)
        assert(TAILQ_EMPTY(&thread->lists[i].all) && thread->lists[i].count == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (!service)
        open_all();
    output.length = 0;
    int fd = connect_client();
    send_pieces(fd, data, size);
    shutdown(fd, SHUT_WR);
    for (int i = 0; thread->connections > 0 && i < TURNS_MAX; i++)
        go_on(fd, 1);
    read_output(fd);
    close(fd);
    check_output();
    check_nothing_left();
    return 0;
}

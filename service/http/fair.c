/* Orders first: holds other calls back while orders are under way.
 *
 * An HTTP thread answers in order of arrival, so a few thousand connections that look at the stock
 * would leave little of its time for orders. While orders are under way, other calls therefore need
 * credit: each answered order adds to it, and so does time, so that calls proceed even when orders
 * do not. A call without credit is held: libmicrohttpd asks again in each run until it may proceed.
 *
 * why_a_crowd: holding calls also delays shops whose clients look, order and pay in turn. While
 * fewer than CROWD other calls arrive in a turn, none is held.
 *
 * why_three_lines: the shop's calls do not wait behind buyers', nor operators' behind either: the
 * lines proceed at equal rates. Operators and probes must be answered within a second: only a crowd
 * of their own calls is held, and for a shorter time. */
#include <assert.h>

#include "base/clock.h"
#include "service/http/http.h"
#include "service/metrics/metrics.h"

enum {
    CROWD = 256, /* see why_a_crowd */
    CROWD_OPERATORS = 64,
    ORDERS_MIN = 32,       /* in flight: below this, no other call is held back */
    CREDIT_PER_ORDER = 40, /* in percent of an order's cost */
    CREDIT_PER_MS = 100,
    CREDIT_MIN = -6400,
    CREDIT_MAX = 25600,
    COST = 100,           /* of reading, holding and answering a call */
    COST_OPERATORS = 300, /* their answers are long */
    RECENT_MS = 20,       /* orders count as under way this long after the last crowd of them */
    STUCK_MS = 250,       /* without an answered order, holding other calls is pointless */
    HOLD_MS_MAX = 1000,
    HOLD_OPERATORS_MS_MAX = 250,
};

/* A line of held calls; fewer than `crowd` in a turn are not held. */
static const struct line {
    size_t crowd;
    int hold_ms_max;
    int cost;
} lines[HTTP_LINES] = {
    {CROWD, HOLD_MS_MAX, COST}, /* buyers */
    {CROWD, HOLD_MS_MAX, COST}, /* the shop */
    {CROWD_OPERATORS, HOLD_OPERATORS_MS_MAX, COST_OPERATORS},
};

/* A request without a route counts as a buyer's. */
static size_t line_of(const struct request *request)
{
    const struct route *route = request->http.route;
    if (!route)
        return 0;
    return route->class == ROUTE_SHOP ? 1 : ROUTE_BIT(route->class) & ROUTE_OPERATORS_OWN ? 2 : 0;
}

static bool since(const struct http_thread *thread, int64_t then_ns, int ms)
{
    return thread->now_ns - then_ns < ms * CLOCK_NS_PER_MS;
}

static bool orders_under_way(const struct http_thread *thread)
{
    const struct http_fair *fair = &thread->fair;
    bool crowd = fair->orders >= ORDERS_MIN || since(thread, fair->crowded_ns, RECENT_MS);
    return crowd && since(thread, fair->answered_ns, STUCK_MS);
}

void fair_sent(struct http_thread *thread, enum call_kind kind)
{
    struct http_fair *fair = &thread->fair;
    if (kind != CALL_ORDER)
        fair->credit -= call_kinds[kind].cost;
    else if (++fair->orders >= ORDERS_MIN)
        fair->crowded_ns = thread->now_ns;
}

void fair_returned(struct http_thread *thread, enum call_kind kind)
{
    struct http_fair *fair = &thread->fair;
    if (kind != CALL_ORDER)
        return;
    assert(fair->orders > 0);
    fair->orders--;
    fair->answered_ns = thread->now_ns;
    fair->credit += CREDIT_PER_ORDER;
}

void fair_count_anew(struct http_thread *thread)
{
    for (size_t i = 0; i < HTTP_LINES; i++)
        thread->fair.lines[i].seen = 0;
}

void fair_begin_turn(struct http_thread *thread)
{
    struct http_fair *fair = &thread->fair;
    int64_t ms = (thread->now_ns - fair->counted_ns) / CLOCK_NS_PER_MS, cost = 0;
    fair->counted_ns += ms * CLOCK_NS_PER_MS;
    fair_count_anew(thread);
    fair->credit += (ms < STUCK_MS ? ms : STUCK_MS) * CREDIT_PER_MS;
    if (fair->credit > CREDIT_MAX)
        fair->credit = CREDIT_MAX;
    if (fair->credit < CREDIT_MIN)
        fair->credit = CREDIT_MIN;
    for (size_t i = 0; i < HTTP_LINES; i++)
        cost += fair->lines[i].held > 0 ? lines[i].cost : 0;
    bool some = cost > 0 && fair->credit > 0;
    for (size_t i = 0; i < HTTP_LINES; i++)
        fair->lines[i].going = some ? (size_t)(fair->credit / cost) + 1 : 0;
}

void fair_let_go(struct http_thread *thread, struct request *request)
{
    struct http_line *line = &thread->fair.lines[line_of(request)];
    if (request->http.held_ns == 0)
        return;
    assert(line->held > 0);
    line->held--;
    request->http.held_ns = 0;
}

/* True when a held request has waited long enough, or its line may proceed. */
static bool goes_on(struct http_thread *thread, const struct request *request, size_t number)
{
    struct http_line *line = &thread->fair.lines[number];
    if (request->http.until_ns <= thread->now_ns || thread->closing || !orders_under_way(thread) ||
        !since(thread, request->http.held_ns, lines[number].hold_ms_max))
        return true;
    if (line->going == 0)
        return false;
    line->going--;
    thread->fair.credit -= lines[number].cost;
    return true;
}

bool fair_admit(struct http_thread *thread, struct request *request)
{
    const struct route *route = request->http.route;
    if (route && route->kind == CALL_ORDER)
        return true;
    size_t number = line_of(request);
    struct http_line *line = &thread->fair.lines[number];
    if (request->http.held_ns != 0) {
        bool goes = goes_on(thread, request, number);
        if (goes)
            fair_let_go(thread, request);
        return goes;
    }
    if (thread->closing || !orders_under_way(thread) ||
        (line->held == 0 && line->seen++ < lines[number].crowd))
        return true;
    request->http.held_ns = thread->now_ns;
    line->held++;
    metrics_count(METRIC_CALLS_HELD);
    return false;
}

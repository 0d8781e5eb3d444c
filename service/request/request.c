/* The table of a request's states, its way back to its HTTP thread, and its deadline. */
#include "service/request/request.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/config/options.h"
#include "service/metrics/metrics.h"

bool request_move(struct request *request, enum request_state from, enum request_state to)
{
    static const bool allowed[REQUEST_STATES][REQUEST_STATES] = {
        [REQUEST_RECEIVING] = {[REQUEST_QUEUED] = true},
        [REQUEST_QUEUED] = {[REQUEST_TAKEN] = true, [REQUEST_WITHDRAWN] = true},
        [REQUEST_TAKEN] =
            {[REQUEST_QUEUED] = true, [REQUEST_DONE] = true, [REQUEST_TIMED_OUT] = true},
    };
    assert(from < REQUEST_STATES && to < REQUEST_STATES && allowed[from][to]);
    /* A deadline and a worker may compete for the request: the exchange lets one win, and its
     * result tells the loser. */
    int expected = (int)from;
    return atomic_compare_exchange_strong(&request->state, &expected, (int)to);
}

void request_home_wake(const struct request_home *home)
{
    uint64_t one = 1;
    ssize_t written = write(home->wake_fd, &one, sizeof one);
    assert(written == sizeof one || errno == EAGAIN);
}

static void give_back(struct request_home *home, struct request *list)
{
    struct request *last = list;
    while (last->queue_next)
        last = last->queue_next;
    struct request *head = atomic_load_explicit(&home->returned, memory_order_relaxed);
    do
        last->queue_next = head;
    while (!atomic_compare_exchange_weak_explicit(&home->returned, &head, list,
                                                  memory_order_release, memory_order_relaxed));
    if (!head) /* otherwise it was woken for earlier ones and has not looked yet */
        request_home_wake(home);
}

/* Makes one pass per HTTP thread; there are few. */
void request_return_all(struct request **requests, size_t count)
{
    while (count > 0) {
        struct request_home *home = requests[0]->home;
        struct request *list = NULL;
        size_t kept = 0;
        for (size_t i = 0; i < count; i++) {
            if (requests[i]->home != home) {
                requests[kept++] = requests[i];
                continue;
            }
            requests[i]->queue_next = list;
            list = requests[i];
        }
        give_back(home, list);
        count = kept;
    }
}

/* ---- the deadline ---- */

void request_set_deadline(struct request *request, const struct config *config, enum call_kind kind)
{
    bool locks = kind != CALL_ORDER && call_kinds[kind].locks;
    int64_t bound_ms = call_bound_ms(config, locks);
    if (kind == CALL_EVENTS)
        bound_ms += request->call.wait_s * INT64_C(1000);
    request->http.until_ns = request->arrived_ns + bound_ms * CLOCK_NS_PER_MS;
    request->order.until_ns = request->http.until_ns; /* read for orders only */
}

enum problem request_why_untaken(const struct request *request, int64_t sold_ns)
{
    bool carried = sold_ns > request->http.complete_ns;
    metrics_count(carried ? METRIC_ORDERS_OVERLOADED : METRIC_ORDERS_UNAVAILABLE);
    return carried ? PROBLEM_OVERLOADED : PROBLEM_UNAVAILABLE;
}

/* Returns WITHDRAWN: no worker has taken it, or will: it was certainly not carried out; TIMED_OUT:
 * its worker carries it through; DONE: its worker has just done so. Loops because an order worker
 * may put the request back into the queue between the two attempts. */
static enum request_state withdraw(struct request *request)
{
    do {
        if (request_move(request, REQUEST_QUEUED, REQUEST_WITHDRAWN))
            return REQUEST_WITHDRAWN;
        if (request_move(request, REQUEST_TAKEN, REQUEST_TIMED_OUT))
            return REQUEST_TIMED_OUT;
    } while (atomic_load(&request->state) == REQUEST_QUEUED);
    return REQUEST_DONE;
}

/* A worker may be writing to the request now, so this reads only atomic members and those that no
 * longer change. */
void request_answer_late(struct request *request, enum call_kind kind, int64_t sold_ns,
                         struct answer *answer_out)
{
    enum request_state state = withdraw(request);
    bool order = kind == CALL_ORDER;
    *answer_out = (struct answer){.problem = PROBLEM_NONE};
    if (state == REQUEST_WITHDRAWN || (!order && !request->call.changes)) {
        answer_problem(answer_out,
                       order ? request_why_untaken(request, sold_ns) : PROBLEM_UNAVAILABLE);
        return;
    }
    if (!order) {
        answer_problem(answer_out, PROBLEM_OUTCOME_UNKNOWN);
        return;
    }
    /* An unknown outcome is never reported as a failure: the client gets the id to ask later. */
    if (state == REQUEST_TIMED_OUT) /* otherwise its worker has counted it */
        metrics_count(METRIC_ORDERS_OUTCOME_UNKNOWN);
    answer_unknown_outcome(answer_out, atomic_load(&request->published_id));
}

/* ---- kinds of calls ---- */

/* A batch is answered when all of it is done, so kinds with long calls have short batches. */
const struct call_kind_row call_kinds[CALL_KINDS] = {
    [CALL_LOOKUP] = {"lookup", "call-lookups", "lookups_failed", 4096, CALL_BATCH_MAX, 60, false},
    [CALL_PAYMENT] = {"payment", "call-payments", "payments_failed", 4096, CALL_BATCH_MAX, 100,
                      false},
    [CALL_CANCEL] = {"cancel", "call-cancels", "cancels_failed", 4096, CALL_BATCH_MAX, 150, true},
    [CALL_LIST] = {"list", "call-lists", "lists_failed", 1024, 1, 300, false},
    [CALL_ADMIN] = {"admin", "call-admin", "admin_failed", 64, 1, 0, true},
    [CALL_SALE] = {"sale", "call-sales", "sales_failed", 64, 1, 0, true},
    [CALL_LISTING] = {"listing", "call-listings", "listings_failed", 64, 1, 300, true},
    [CALL_WEBHOOK] = {"webhook", "call-webhooks", "webhooks_failed", 64, 1, 0, true},
    [CALL_EVENTS] = {"events", "event-feed", "feed_failed", 256, 0, 100, false},
};

int call_bound_ms(const struct config *config, bool locks)
{
    int usual_ms = (int)config->deadline_ms, locks_ms = (int)config->lease_ms + usual_ms / 2;
    return locks && locks_ms > usual_ms ? locks_ms : usual_ms;
}

/* The table of a request's states, and its way back to its HTTP thread. */
#include "service/request/request.h"

#include <assert.h>
#include <errno.h>
#include <unistd.h>

#include "service/config/options.h"

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

/* ---- kinds of calls ---- */

/* A batch is answered when all of it is done, so kinds with long calls have short batches. */
const struct call_kind_row call_kinds[CALL_KINDS] = {
    [CALL_LOOKUP] = {"call-lookups", "lookups_failed", 4096, CALL_BATCH_MAX, 60, false},
    [CALL_PAYMENT] = {"call-payments", "payments_failed", 4096, CALL_BATCH_MAX, 100, false},
    [CALL_CANCEL] = {"call-cancels", "cancels_failed", 4096, CALL_BATCH_MAX, 150, true},
    [CALL_LIST] = {"call-lists", "lists_failed", 1024, 1, 300, false},
    [CALL_ADMIN] = {"call-admin", "admin_failed", 64, 1, 0, true},
    [CALL_SALE] = {"call-sales", "sales_failed", 64, 1, 0, true},
    [CALL_LISTING] = {"call-listings", "listings_failed", 64, 1, 300, true},
};

int call_bound_ms(const struct config *config, bool locks)
{
    int usual_ms = (int)config->deadline_ms, locks_ms = (int)config->lease_ms + usual_ms / 2;
    return locks && locks_ms > usual_ms ? locks_ms : usual_ms;
}

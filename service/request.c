/* One HTTP request on its way: the table of its states. */
#include "service/request.h"

#include <assert.h>

bool request_move(struct request *request, enum request_state from, enum request_state to)
{
    static const bool allowed[REQUEST_STATES][REQUEST_STATES] = {
        [REQUEST_RECEIVING] = {[REQUEST_QUEUED] = true},
        [REQUEST_QUEUED] = {[REQUEST_TAKEN] = true, [REQUEST_WITHDRAWN] = true},
        [REQUEST_TAKEN] =
            {[REQUEST_QUEUED] = true, [REQUEST_DONE] = true, [REQUEST_TIMED_OUT] = true},
    };
    assert(from < REQUEST_STATES && to < REQUEST_STATES && allowed[from][to]);
    /* A deadline and a worker may want the request at the same moment: the exchange lets one of
     * them have it, and the loser reads in the result that it has not. */
    int expected = (int)from;
    return atomic_compare_exchange_strong(&request->state, &expected, (int)to);
}

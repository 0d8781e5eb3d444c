/* The kinds of calls: their queues and workers. */
#include "service/request/call_kind.h"

#include "service/config/options.h"

/* Where one call may take long, the batch is short: a batch is answered when all of it is done. */
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

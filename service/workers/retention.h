/* Retention: rounds that ended long ago lose what only running rounds need. */
#ifndef SECKILL_SERVICE_WORKERS_RETENTION_H
#define SECKILL_SERVICE_WORKERS_RETENTION_H

#include "sql/sales/sales.h"

/* Belongs to the thread that does the work; zero to begin with. */
struct retention {
    int64_t next_ns; /* when to look again, once nothing was left to be deleted */
};

/* Deletes for a few ten ms what rounds that ended more than `days` ago have left; 0: keeps all.
 * False when the ledger failed. */
bool retention_work(struct retention *retention, struct ledger *ledger, unsigned days);

#endif

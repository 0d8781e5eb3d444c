/* What is sold of each sale, for the metrics: read from the ledger in the background, a bounded
 * part at a time, and shown of the sales in which something happened last.
 *
 * A turn reads one page of all sales, and the shown ones anew, so that a turn costs the same
 * however many sales there are. */
#ifndef SECKILL_SERVICE_METRICS_SALE_FIGURES_H
#define SECKILL_SERVICE_METRICS_SALE_FIGURES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "sql/sales/sales.h"

enum {
    SALE_FIGURES_SHOWN_MAX = 100, /* sales */
    SALE_FIGURES_PAGE = 200,      /* sales of a turn, beside the shown ones */
};

struct sale_figures;

struct sale_figures_view {
    size_t known;    /* sales that there are, as far as they were read */
    size_t shown;    /* the first of `sales` */
    int64_t read_ms; /* by the ledger's clock: when it last answered; 0: not yet */
    struct ledger_sale sales[SALE_FIGURES_SHOWN_MAX]; /* in order of their skus */
};

struct sale_figures *sale_figures_open(void);
void sale_figures_close(struct sale_figures **figures);

/* One turn; `now_ms` is the ledger's time. False when the ledger did not answer: then the figures
 * stay. For one thread alone, which owns the ledger's connection. */
bool sale_figures_turn(struct sale_figures *figures, struct ledger *ledger, int64_t now_ms);

/* Copies what the last turn left. Any thread. */
void sale_figures_view(struct sale_figures *figures, struct sale_figures_view *view_out);

/* Whether the sale's window is open at that time, paused or not. */
bool sale_figures_open_at(const struct ledger_sale *sale, int64_t now_ms);

#endif

/* Changing a sale's settings while it runs. */
#ifndef STOCK_SALES_SETTINGS_H
#define STOCK_SALES_SETTINGS_H

#include "sql/sales/ledger_sale.h"
#include "stock/types.h"

/* Which of the settings to change, and into what. */
enum {
    STOCK_CHANGE_STARTS = 1,
    STOCK_CHANGE_ENDS = 2,
    STOCK_CHANGE_LIMIT = 4,
    STOCK_CHANGE_PAY = 8,
    STOCK_CHANGE_PAUSED = 16,
    STOCK_CHANGE_ALL = 31,
};

struct stock_change {
    unsigned fields;
    struct ledger_settings settings;
};

/* Replaces those of the settings that the change names. */
void stock_change_apply(struct ledger_settings *settings, const struct stock_change *change);

/* Changes the settings of a sale while it runs, and publishes them to every process. After
 * STOCK_ADMIN_OK no order is accepted under older settings, by whichever process. Where a limit is
 * set that the sale did not have, the orders there are must be counted: when they are many,
 * `sale_out` says that the sale is still closed for it (settings.counting), and stock_count must
 * finish that. */
enum stock_admin_result stock_change(struct stock *stock, const char *sku,
                                     const struct stock_change *change,
                                     struct ledger_sale *sale_out);

#endif

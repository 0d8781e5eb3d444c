/* Changes of a sale's settings while it runs. */
#ifndef SQL_LEDGER_SETTINGS_H
#define SQL_LEDGER_SETTINGS_H

#include "sql/sales/ledger_sale.h"

struct sql_text;

/* Changes the settings of a sale to `settings` if their version is still the one given. After
 * LEDGER_OK no stock update decided by older settings is accepted, and `settings` has the new
 * version. `begins_count`: a limit is set where there was none, so what users have by now must be
 * counted; the sale is closed until ledger_count_step has done that, or the limit is taken away.
 * LEDGER_NO: the version is another by now, or there is no such sale. LEDGER_UNKNOWN: read the
 * settings again. */
enum ledger_result ledger_settings_change(struct ledger *ledger, const char *sku,
                                          struct ledger_settings *settings, bool begins_count);

/* For sql/ only. Appends the settings but their version as assignments, with a comma at the end. */
void ledger_settings_text(struct sql_text *sql, const struct ledger_settings *settings);

#endif

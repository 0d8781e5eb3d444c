/* Counting what the users of a sale have, after a limit was set while the sale ran.
 *
 * ledger_settings_change has closed the sale for it. The counting is done in short transactions,
 * which lock nothing that orders of other sales need. Each of them also notes how far it has come,
 * so that any process can go on after it. The last one opens the sale. */
#ifndef SQL_LEDGER_COUNT_H
#define SQL_LEDGER_COUNT_H

#include "sql/ledger.h"

/* Finds a sale that is being counted. LEDGER_NO: there is none. */
enum ledger_result ledger_count_find(struct ledger *ledger, char sku_out[IDENTIFIER_SIZE]);

/* Counts on in a sale, past at most `rows` orders of whatever sales, and opens the sale when that
 * was the rest. Processes may do so at once: they take turns. LEDGER_OK: go on. LEDGER_NO: the sale
 * is not being counted, or no more, as after the step that opens it. LEDGER_FAILED, LEDGER_UNKNOWN:
 * going on later is harmless. */
enum ledger_result ledger_count_step(struct ledger *ledger, const char *sku, uint32_t rows);

#endif

/* Rows that other transactions hold: looked for without waiting, and what is known of a holder. */
#ifndef SQL_LEDGER_ROWS_H
#define SQL_LEDGER_ROWS_H

#include "sql/ledger.h"

enum ledger_row_kind { LEDGER_ROW_SALE, LEDGER_ROW_SEGMENT, LEDGER_ROW_QUOTA };

enum { LEDGER_HOLDER_SIZE = 160 };

/* A row that a transaction is to change. */
struct ledger_row {
    const char *sku;
    const char *user_id; /* of a quota */
    uint32_t number;     /* the segment, or the round of a quota */
    bool held;           /* out */
};

/* True when the last call of this ledger failed, with nothing done, because another transaction
 * held a row for longer than one waits for a row (LEDGER_ROW_WAIT_S), or where it must not wait. */
enum { LEDGER_ROW_WAIT_S = 1 };
bool ledger_met_held_row(const struct ledger *ledger);

/* Says of each row, all of one kind, whether another transaction holds it now, a row that is being
 * inserted included. Waits for nobody, and holds the free rows for the statement alone. LEDGER_OK
 * or LEDGER_FAILED; then no row is called held. */
enum ledger_result ledger_rows_look(struct ledger *ledger, enum ledger_row_kind kind,
                                    struct ledger_row *rows, size_t count);

/* Who most likely holds a row that was waited for: the oldest transaction that holds rows. In
 * words; "unknown" where the account may not read information_schema.innodb_trx (it needs the
 * privilege PROCESS), or there is none. */
void ledger_row_holder(struct ledger *ledger, char holder_out[LEDGER_HOLDER_SIZE]);

/* As ledger_row_holder, of a table whose change waits: the oldest transaction of all, as one that
 * only reads has the table open as well. */
void ledger_table_holder(struct ledger *ledger, char holder_out[LEDGER_HOLDER_SIZE]);

#endif

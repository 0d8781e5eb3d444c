/* Private to sql/: what the ledger's sources share. */
#ifndef SQL_LEDGER_PRIVATE_H
#define SQL_LEDGER_PRIVATE_H

#include "sql/ledger.h"
#include "sql/order_insert.h"
#include "sql/sql_text.h"

struct ledger {
    struct db *db;
    struct sql_text sql;
    struct order_insert *insert;
};

/* Runs ledger->sql, within db_run or alone. */
enum db_result ledger_query(struct ledger *ledger);

/* Runs ledger->sql, which may be repeated without harm, alone; once more on a new connection when
 * the old one turns out to be lost. */
enum db_result ledger_read(struct ledger *ledger);

enum ledger_result ledger_from_db(enum db_result result);

/* Columns as values; SQL NULL is 0 or "". */
uint32_t ledger_u32(const char *column);
uint64_t ledger_u64(const char *column);
void ledger_word(char out[LEDGER_WORD_SIZE], const char *column);

/* Reads the columns segment, round, capacity, sold, fence. */
void ledger_segment_read(struct ledger_segment *segment, char **row);

#endif

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
void ledger_word(char out[LEDGER_IDENTIFIER_SIZE], const char *column);

/* A DATETIME as ledger_time_format writes it; SQL NULL is "". */
void ledger_time_read(char out[LEDGER_TIME_SIZE], const char *column);

/* Appends ms since 1970 as a DATETIME; 0 is NULL. */
void ledger_text_time(struct sql_text *sql, int64_t ms);

/* Appends the SELECT of a sale's segments, without an end. */
void ledger_text_segments(struct sql_text *sql, const char *sku);

/* Reads a row of it: segment, round, capacity, sold, fence. */
void ledger_segment_read(struct ledger_segment *segment, char **row);

/* Reads all of its rows, at most `max`; returns how many. */
size_t ledger_segments_read(struct db *db, struct ledger_segment *segments_out, size_t max);

#endif

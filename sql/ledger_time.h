/* Moments as the interface and as the ledger's tables write them, always in UTC. */
#ifndef SQL_LEDGER_TIME_H
#define SQL_LEDGER_TIME_H

#include <stdint.h>

enum { LEDGER_TIME_SIZE = 25 }; /* 2026-11-20T21:30:00.123Z with its NUL */

struct sql_text;

/* Writes ms since 1970 as 2026-11-20T21:30:00.123Z. */
void ledger_time_format(int64_t ms, char out[LEDGER_TIME_SIZE]);

/* For sql/ only. Writes a DATETIME(3) column in the same form; SQL NULL becomes "". */
void ledger_time_read(char out[LEDGER_TIME_SIZE], const char *column);

/* For sql/ only. Appends ms since 1970 as a DATETIME(3); 0 becomes NULL. */
void ledger_time_text(struct sql_text *sql, int64_t ms);

#endif

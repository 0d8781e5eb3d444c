/* The ledger: orders and segments as rows of MySQL, read and written by one thread. */
#ifndef SQL_LEDGER_H
#define SQL_LEDGER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/identifier.h"
#include "sql/db/db.h"

struct fault;
struct sql_text;

enum {
    LEDGER_SEGMENTS_MAX = 1024,   /* segments of one sale */
    LEDGER_ORDERS_MAX = 512,      /* orders of one commit */
    LEDGER_TOTAL_MAX = INT32_MAX, /* units of one sale */
};

enum ledger_result {
    LEDGER_OK,
    LEDGER_NO,        /* no such row, or a guard refused the change: nothing is changed */
    LEDGER_DUPLICATE, /* an order with that id, or with that user and key, exists already */
    LEDGER_LIMIT,     /* a user would exceed the limit per user: nothing is changed */
    LEDGER_LATE,      /* the time of an order was over: nothing is changed */
    LEDGER_FAILED,    /* certainly not done */
    LEDGER_UNKNOWN,   /* the server did not answer the commit: ask with ledger_resolve */
    LEDGER_DAMAGED,   /* a row makes no sense, see ledger_fault: nothing is changed */
};

#define LEDGER_ROUND_MAX (UINT32_MAX - 1) /* of a round or settings' version that has a next one */

/* A ledger belongs to one thread at a time. */
struct ledger;

/* Makes a ledger without connecting, as db_open does. The caller closes it. */
struct ledger *ledger_open(const char *url, int timeout_ms, char *error_out, size_t error_size);

void ledger_close(struct ledger **ledger);

/* Failures at the ledger's server since the caller last cleared them; see db_fault. */
struct fault *ledger_fault(struct ledger *ledger);

/* Addresses for messages: of all of the ledger's servers (any thread), and of the one that it
 * writes to, or last wrote to (the ledger's thread). */
const char *ledger_place(const struct ledger *ledger);
const char *ledger_server(const struct ledger *ledger);

/* Notices a change of the server to write to that caused no error, and several servers that take
 * writes (ledger_split). Asks the servers at most every DB_LOOK_EVERY_MS, without waiting for
 * answers; does nothing with one server. */
void ledger_look(struct ledger *ledger);
bool ledger_split(const struct ledger *ledger);

/* The last error in words; empty before the first. */
const char *ledger_error(const struct ledger *ledger);

struct db_stats ledger_stats(const struct ledger *ledger);

/* The number of the present connection, counted from 1. What was read on an earlier one is no
 * longer certain: the server may have died in between and forgotten what was not on its disk. */
uint64_t ledger_connection(const struct ledger *ledger);

/* The number, connecting first if need be; and the writes without an answer, see db_wait. */
uint64_t ledger_connect(struct ledger *ledger);
struct db_wait ledger_wait(const struct ledger *ledger);

/* Asks the server for an answer, connecting if need be. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_ping(struct ledger *ledger);

/* ---- rows that other transactions hold ---- */

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
 * held a row for longer than LEDGER_ROW_WAIT_S, or at all where the call must not wait. */
enum { LEDGER_ROW_WAIT_S = 1 };
bool ledger_met_held_row(const struct ledger *ledger);

/* Sets `held` in each row, all of one kind, that another transaction holds now or is inserting.
 * Waits for nobody, and locks the free rows for the statement alone. LEDGER_OK, or LEDGER_FAILED
 * with no row held. */
enum ledger_result ledger_rows_look(struct ledger *ledger, enum ledger_row_kind kind,
                                    struct ledger_row *rows, size_t count);

/* Describes who most likely holds an awaited row: the oldest transaction that holds rows; "unknown"
 * when there is none or the account may not read information_schema.innodb_trx (privilege
 * PROCESS). */
void ledger_row_holder(struct ledger *ledger, char holder_out[LEDGER_HOLDER_SIZE]);

/* As ledger_row_holder, for a table whose change waits: the oldest transaction of all, because one
 * that only reads has the table open as well. */
void ledger_table_holder(struct ledger *ledger, char holder_out[LEDGER_HOLDER_SIZE]);

/* ---- segments ---- */

struct ledger_segment {
    uint32_t segment;
    uint32_t round;
    uint32_t capacity;
    uint32_t sold;
    uint64_t fence;
};

/* Reads all segments of a sale by one statement, in order, so that they are consistent with each
 * other; `segments_out` has room for LEDGER_SEGMENTS_MAX. LEDGER_NO: no such sale. */
enum ledger_result ledger_segments(struct ledger *ledger, const char *sku,
                                   struct ledger_segment *segments_out, size_t *count_out);

/* ---- moments, always in UTC ---- */

enum { LEDGER_TIME_SIZE = 25 }; /* 2026-11-20T21:30:00.123Z with its NUL */

/* Writes ms since 1970 as 2026-11-20T21:30:00.123Z. */
void ledger_time_format(int64_t ms, char out[LEDGER_TIME_SIZE]);

/* ---- for sql/ only ---- */

/* A SELECT of a sale's segments that ends in its condition on the sku, a %s of sql_printf. */
#define LEDGER_SEGMENTS_SELECT                                                                     \
    "SELECT segment,round,capacity,sold,fence FROM stock_segment WHERE sku=%s"

/* Reads a row of that SELECT. False, with a note of the damage, when the service cannot have
 * written one of its numbers, or, unless it is read `as_it_is`, sold exceeds the capacity: then
 * only the segment's number is set. */
bool ledger_segment_read(struct ledger *ledger, const char *sku, struct ledger_segment *segment,
                         char **row, bool as_it_is);

/* Reads all of its rows, at most `max`. LEDGER_DAMAGED: one of them makes no sense. */
enum ledger_result ledger_segments_read(struct ledger *ledger, const char *sku,
                                        struct ledger_segment *segments_out, size_t max,
                                        size_t *count_out);

/* A DATETIME as ms since 1970, whatever the connection's time zone. */
#define LEDGER_MS_OF(column) "TIMESTAMPDIFF(MICROSECOND,'1970-01-01'," column ")DIV 1000"

/* Writes a DATETIME(3) column in the same form; SQL NULL becomes "". */
void ledger_time_read(char out[LEDGER_TIME_SIZE], const char *column);

/* Appends ms since 1970 as a DATETIME(3); 0 becomes NULL. */
void ledger_time_text(struct sql_text *sql, int64_t ms);

#endif

/* The orders of one round of a sale: counted, and the reserved ones ended when the round is over.
 *
 * Orders have no index by sale. So their table is read from the newest order back, some thousand
 * rows at a time, until all units are found that the round's orders hold. */
#ifndef SQL_LEDGER_ROUND_ORDERS_H
#define SQL_LEDGER_ROUND_ORDERS_H

#include "sql/ledger.h"

/* Orders of a round that hold units, as far as they have been read. */
struct ledger_round_use {
    uint32_t reserved, paid; /* orders */
    uint32_t units;          /* in these orders */
    bool all_read;           /* there are no older orders */
    uint64_t next_id;        /* reading goes on below this id; 0: it begins */
};

/* Reads on, past at most `rows` orders of whatever sales. LEDGER_OK or LEDGER_FAILED. */
enum ledger_result ledger_round_count(struct ledger *ledger, const char *sku, uint32_t round,
                                      uint32_t rows, struct ledger_round_use *use);

/* Finds a round that a reset has ended and that may have reserved orders. LEDGER_NO: none. */
enum ledger_result ledger_round_end_find(struct ledger *ledger, char sku_out[IDENTIFIER_SIZE],
                                         uint32_t *round_out);

/* Goes on ending the reserved orders of such a round, past at most `rows` orders of whatever sales,
 * in one transaction that notes how far it came; processes that do so at once take turns.
 * `ended_out` counts the orders that it has expired. LEDGER_OK: go on. LEDGER_NO: nothing is left
 * to do. LEDGER_FAILED, LEDGER_UNKNOWN: going on later is harmless. */
enum ledger_result ledger_round_end_step(struct ledger *ledger, const char *sku, uint32_t round,
                                         uint32_t rows, uint32_t *ended_out);

#endif

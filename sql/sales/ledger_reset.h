/* The beginning of a sale's next round. */
#ifndef SQL_LEDGER_RESET_H
#define SQL_LEDGER_RESET_H

#include "sql/sales/ledger_sale.h"
#include "sql/ledger_segment.h"

enum { LEDGER_RESET_TEXT_MAX = 256 }; /* bytes of a reset's request, with its NUL */

struct ledger_reset {
    const char *key;        /* idempotency key; NULL or "" for none */
    const char *request;    /* with a key: what the call asks for, in words of the caller's */
    const uint64_t *fences; /* of the locks of all segments of the old and of the new round */
    bool end_round;         /* although orders of the old round hold units */
    uint32_t held;          /* out: units that orders of the old round hold */
};

/* Begins the next round of a sale, or its first. `sale` in: sku, total, segments and settings; its
 * round and its settings' version are those that the caller has read, 0 for a sale that did not
 * exist. On LEDGER_OK they are the new ones, nothing is sold, and `segments_out` (room for
 * `sale->segments`) has the new rows. From then on no order of the old round can be paid; where
 * they hold units, ledger_round_end_step ends the reserved ones. LEDGER_NO: orders of the old round
 * hold units (`held` > 0) and `end_round` does not say so, or (`held` is 0) the round or the
 * version is another by now. LEDGER_DUPLICATE: the key has been used. LEDGER_UNKNOWN: the round
 * may have begun; with a key it may be repeated, and the repeat waits for the first try to end. */
enum ledger_result ledger_reset(struct ledger *ledger, struct ledger_reset *reset,
                                struct ledger_sale *sale, struct ledger_segment *segments_out);

/* Finds what a reset did under a key: the sale as it was then, the request, and whether the sale
 * has been retired since. LEDGER_NO: there was none. */
enum ledger_result ledger_reset_find(struct ledger *ledger, const char *sku, const char *key,
                                     struct ledger_sale *sale_out,
                                     char request_out[LEDGER_RESET_TEXT_MAX], bool *retired_out);

#endif

/* The orders of a round: who holds units of the present one, and the end of those of earlier
 * ones. */
#include "stock/sales/round.h"

#include "base/clock.h"
#include "stock/stock_core.h"

/* A payment or a cancel of an order of the piece waits for it, so a piece must be short; but each
 * costs a commit. */
enum {
    PIECE_ROWS_MIN = 1000,
    PIECE_ROWS_MAX = 64000,
    PIECE_MS_MIN = 10, /* the next piece after a shorter one has twice as many orders */
    PIECE_MS_MAX = 40, /* after a longer one, half as many */
};

static uint32_t next_rows(uint32_t rows, int64_t took_ns)
{
    if (took_ns < PIECE_MS_MIN * CLOCK_NS_PER_MS && rows < PIECE_ROWS_MAX)
        return 2 * rows;
    if (took_ns > PIECE_MS_MAX * CLOCK_NS_PER_MS && rows > PIECE_ROWS_MIN)
        return rows / 2;
    return rows;
}

bool stock_round_use(struct stock *stock, const struct ledger_sale *sale, int64_t until_ns,
                     struct ledger_round_use *use_out)
{
    uint32_t rows = PIECE_ROWS_MIN;
    int64_t now_ns = clock_now_ns();
    *use_out = (struct ledger_round_use){.all_read = false};
    while (!use_out->all_read && use_out->units < sale->sold && now_ns < until_ns) {
        int64_t start_ns = now_ns;
        if (ledger_round_count(stock->ledger, sale->sku, sale->round, rows, use_out) != LEDGER_OK)
            return false;
        now_ns = clock_now_ns();
        rows = next_rows(rows, now_ns - start_ns);
    }
    use_out->all_read |= use_out->units >= sale->sold;
    return true;
}

/* Ends those of one round. */
static enum ledger_result end_one(struct stock *stock, const char *sku, uint32_t round,
                                  int64_t until_ns, uint64_t *ended)
{
    enum ledger_result result = LEDGER_OK;
    uint32_t rows = PIECE_ROWS_MIN, moved = 0;
    int64_t now_ns = clock_now_ns();
    while (result == LEDGER_OK && now_ns < until_ns) {
        int64_t start_ns = now_ns;
        result = ledger_round_end_step(stock->ledger, sku, round, rows, &moved);
        *ended += moved;
        now_ns = clock_now_ns();
        rows = next_rows(rows, now_ns - start_ns);
    }
    return result;
}

enum ledger_result stock_round_end(struct stock *stock, int64_t until_ns, uint64_t *ended)
{
    char sku[IDENTIFIER_SIZE];
    uint32_t round = 0;
    while (clock_now_ns() < until_ns) {
        enum ledger_result result = ledger_round_end_find(stock->ledger, sku, &round);
        if (result == LEDGER_OK)
            result = end_one(stock, sku, round, until_ns, ended);
        else if (result == LEDGER_NO)
            return LEDGER_NO;
        if (result == LEDGER_FAILED || result == LEDGER_UNKNOWN)
            return LEDGER_FAILED;
    }
    return LEDGER_OK;
}

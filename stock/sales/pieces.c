/* Does long work on a sale's orders in pieces: counts what its users have, for a limit set in
 * mid-sale; counts who holds units of a round; ends the orders of rounds that are over.
 *
 * why_in_pieces: other calls for the orders of a piece wait for it, so a piece must be short, even
 * on a slow server; but each piece costs a commit. */
#include "stock/sales/sales.h"

#include <assert.h>

#include "base/clock.h"
#include "sql/orders/orders.h"
#include "sql/sales/sales.h"
#include "stock/sales/lock.h"
#include "stock/stock_core.h"

/* Sets the number of orders in a piece, by how long the last piece took. */
struct pace {
    uint32_t rows_min;
    int64_t short_ms; /* after a shorter piece the next has twice as many orders, */
    int64_t long_ms;  /* after a longer one half as many */
};

enum { PIECE_ROWS_MAX = 64000 };

static const struct pace counting = {500, 40, 120};
static const struct pace rounds = {1000, 10, 40};

struct pieces {
    const struct pace *pace;
    int64_t until_ns;
    uint32_t rows;    /* of the present piece */
    int64_t start_ns; /* of the present piece; 0: none has begun */
};

static struct pieces pieces_of(const struct pace *pace, uint32_t rows, int64_t until_ns)
{
    assert(pace->rows_min <= PIECE_ROWS_MAX && pace->short_ms < pace->long_ms);
    return (struct pieces){pace, until_ns, rows > 0 ? rows : pace->rows_min, 0};
}

/* Begins the next piece. False when the time is over. */
static bool next_piece(struct pieces *pieces)
{
    const struct pace *pace = pieces->pace;
    int64_t now_ns = clock_now_ns(), took_ns = now_ns - pieces->start_ns;
    if (pieces->start_ns == 0)
        took_ns = pace->short_ms * CLOCK_NS_PER_MS;
    if (took_ns < pace->short_ms * CLOCK_NS_PER_MS && pieces->rows < PIECE_ROWS_MAX)
        pieces->rows *= 2;
    if (took_ns > pace->long_ms * CLOCK_NS_PER_MS && pieces->rows > pace->rows_min)
        pieces->rows /= 2;
    pieces->start_ns = now_ns;
    return now_ns < pieces->until_ns;
}

/* ---- counting for a limit ---- */

static void publish_opening(struct stock *stock, const char *sku)
{
    struct ledger_sale sale;
    if (ledger_sale_find(stock->ledger, sku, &sale) == LEDGER_OK &&
        ledger_confirm(stock->ledger, ledger_connection(stock->ledger)) == LEDGER_OK)
        sale_publish(stock, &sale);
}

enum ledger_result stock_count_sale(struct stock *stock, const char *sku, int64_t until_ns)
{
    enum ledger_result result = LEDGER_OK;
    struct pieces pieces = pieces_of(&counting, stock->count_rows, until_ns);
    while (result == LEDGER_OK && next_piece(&pieces))
        result = ledger_count_step(stock->ledger, sku, pieces.rows);
    stock->count_rows = pieces.rows;
    if (result == LEDGER_NO)
        publish_opening(stock, sku);
    return result == LEDGER_UNKNOWN ? LEDGER_FAILED : result;
}

enum ledger_result stock_count(struct stock *stock, int64_t until_ns)
{
    char sku[IDENTIFIER_SIZE];
    while (clock_now_ns() < until_ns) {
        enum ledger_result found = ledger_count_find(stock->ledger, sku);
        if (found != LEDGER_OK)
            return found;
        if (stock_count_sale(stock, sku, until_ns) == LEDGER_FAILED)
            return LEDGER_FAILED;
    }
    return LEDGER_OK;
}

/* ---- the orders of a round ---- */

bool stock_round_use(struct stock *stock, const struct ledger_sale *sale, int64_t until_ns,
                     struct ledger_round_use *use_out)
{
    struct pieces pieces = pieces_of(&rounds, 0, until_ns);
    *use_out = (struct ledger_round_use){.all_read = false};
    while (!use_out->all_read && use_out->units < sale->sold && next_piece(&pieces))
        if (ledger_round_count(stock->ledger, sale->sku, sale->round, pieces.rows, use_out) !=
            LEDGER_OK)
            return false;
    use_out->all_read |= use_out->units >= sale->sold;
    return true;
}

static enum ledger_result end_one_round(struct stock *stock, const char *sku, uint32_t round,
                                        int64_t until_ns, uint64_t *ended)
{
    enum ledger_result result = LEDGER_OK;
    struct pieces pieces = pieces_of(&rounds, 0, until_ns);
    while (result == LEDGER_OK && next_piece(&pieces)) {
        uint32_t moved = 0;
        result = ledger_round_end_step(stock->ledger, sku, round, pieces.rows, &moved);
        *ended += moved;
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
            result = end_one_round(stock, sku, round, until_ns, ended);
        else if (result == LEDGER_NO)
            return LEDGER_NO;
        if (result == LEDGER_FAILED || result == LEDGER_UNKNOWN)
            return LEDGER_FAILED;
    }
    return LEDGER_OK;
}

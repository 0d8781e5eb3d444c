/* Finishing what a limit set in mid-sale has begun: counting what the sale's users have. */
#include "stock/sale_count.h"

#include "base/clock.h"
#include "sql/ledger_confirm.h"
#include "sql/ledger_count.h"
#include "sql/ledger_sale.h"
#include "stock/sale_lock.h"
#include "stock/stock_core.h"

/* A return of an order of the sale waits for one piece, so a piece must be short, on a slow server
 * as well; but each costs a commit. */
enum {
    PIECE_ROWS_MIN = 500,
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

static void publish(struct stock *stock, const char *sku)
{
    struct ledger_sale sale;
    if (ledger_sale_find(stock->ledger, sku, &sale) == LEDGER_OK &&
        ledger_confirm(stock->ledger, ledger_connection(stock->ledger)) == LEDGER_OK)
        sale_publish(stock, &sale);
}

enum ledger_result stock_count_sale(struct stock *stock, const char *sku, int64_t until_ns)
{
    enum ledger_result result = LEDGER_OK;
    uint32_t rows = PIECE_ROWS_MIN;
    int64_t now_ns = clock_now_ns();
    while (result == LEDGER_OK && now_ns < until_ns) {
        int64_t start_ns = now_ns;
        result = ledger_count_step(stock->ledger, sku, rows);
        now_ns = clock_now_ns();
        rows = next_rows(rows, now_ns - start_ns);
    }
    if (result == LEDGER_NO)
        publish(stock, sku);
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

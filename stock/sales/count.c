/* Finishing what a limit set in mid-sale has begun: counting what the sale's users have. */
#include "stock/sales/count.h"

#include "base/clock.h"
#include "sql/orders/ledger_confirm.h"
#include "sql/sales/ledger_count.h"
#include "sql/sales/ledger_sale.h"
#include "stock/sales/lock.h"
#include "stock/stock_core.h"

/* A return of an order of the sale waits for one piece, so a piece must be short, on a slow server
 * as well; but each costs a commit. */
enum {
    PIECE_ROWS_MIN = 500,
    PIECE_ROWS_MAX = 64000,
    PIECE_MS_MIN = 40,  /* the next piece after a shorter one has twice as many orders */
    PIECE_MS_MAX = 120, /* after a longer one, half as many */
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
    int64_t now_ns = clock_now_ns();
    if (stock->count_rows == 0)
        stock->count_rows = PIECE_ROWS_MIN;
    while (result == LEDGER_OK && now_ns < until_ns) {
        int64_t start_ns = now_ns;
        result = ledger_count_step(stock->ledger, sku, stock->count_rows);
        now_ns = clock_now_ns();
        stock->count_rows = next_rows(stock->count_rows, now_ns - start_ns);
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

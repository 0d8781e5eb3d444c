/* Whether a sale is open to an order, and by which of its snapshots the order is decided. */
#include "stock/orders/check_settings.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "sql/orders/ledger_confirm.h"
#include "sql/sales/ledger_settings.h"
#include "stock/orders/held_rows.h"

/* What the ledger said when asked whether the snapshot is still right. */
enum standing { NOT_ASKED, CONFIRMED, CHANGED, SILENT };

struct entry {
    struct sale *sale;
    struct sale_snapshot snapshot;
    enum standing standing;
};

enum { SLOTS = 2 * STOCK_BATCH_MAX }; /* of the table of entries: a power of two */

struct settings_book {
    size_t count;
    uint16_t slots[SLOTS]; /* number of a sale's entry from 1, 0: none */
    struct entry entries[STOCK_BATCH_MAX];
};

struct settings_book *settings_book_open(void)
{
    struct settings_book *book = calloc(1, sizeof *book);
    if (!book)
        abort();
    return book;
}

void settings_book_close(struct settings_book **book)
{
    free(*book);
    *book = NULL;
}

static struct entry *entry_of(struct settings_book *book, struct sale *sale)
{
    size_t slot = hash_address_slot(sale, SLOTS);
    for (; book->slots[slot] != 0; slot = (slot + 1) % SLOTS)
        if (book->entries[book->slots[slot] - 1].sale == sale)
            return &book->entries[book->slots[slot] - 1];
    assert(book->count < STOCK_BATCH_MAX);
    struct entry *entry = &book->entries[book->count++];
    book->slots[slot] = (uint16_t)book->count;
    entry->sale = sale;
    entry->snapshot = sale_snapshot(sale);
    entry->standing = NOT_ASKED;
    return entry;
}

/* A confirmation that is recent enough serves as an answer. A sale that was retired meanwhile has
 * changed: the cache has it no more, and the order's next try finds none. */
static enum standing ask(struct stock *stock, const struct entry *entry)
{
    struct sale *sale = entry->sale;
    enum ledger_result found = LEDGER_OK;
    if (!sale_confirmed(sale, clock_now_ns()))
        found = stock_sale_reload(stock, sale_sku(sale), &sale);
    if (found != LEDGER_OK)
        return found == LEDGER_NO ? CHANGED : SILENT;
    bool same = sale_snapshot(sale).settings.version == entry->snapshot.settings.version;
    return same ? CONFIRMED : CHANGED;
}

void settings_refuse(struct stock *stock, struct stock_order *order, enum stock_outcome outcome)
{
    struct entry *entry = entry_of(stock->settings, order->sale);
    assert(stock_outcome_refused(outcome));
    if (entry->standing == NOT_ASKED)
        entry->standing = ask(stock, entry);
    order->outcome = entry->standing == CONFIRMED ? outcome
                     : entry->standing == CHANGED ? STOCK_AGAIN
                                                  : STOCK_UNAVAILABLE;
}

struct finding {
    struct ledger_sale *rows;
    size_t count;
};

static void note_found(const struct ledger_sale *row, void *context)
{
    struct finding *finding = context;
    finding->rows[finding->count++] = *row;
}

/* Looks up sales for the cache, which learns only what is on the disk (see stock_sale_reload).
 * False when the ledger cannot be asked, a sale's row makes no sense, or the cache is full. */
static bool learn_sales(struct stock *stock, const char *const *skus, size_t count)
{
    struct finding finding = {.rows = calloc(count, sizeof *finding.rows)};
    if (!finding.rows)
        abort();
    enum ledger_result result = ledger_sales_find(stock->ledger, skus, count, note_found, &finding);
    bool good = result == LEDGER_OK || result == LEDGER_DAMAGED;
    uint64_t connection = ledger_connection(stock->ledger);
    if (good && finding.count > 0)
        good = ledger_confirm(stock->ledger, connection) == LEDGER_OK;
    for (size_t i = 0; good && i < finding.count; i++)
        good = sale_cache_put(stock->sale_cache, &finding.rows[i]) != NULL;
    free(finding.rows);
    return good && result == LEDGER_OK;
}

/* Sets the orders' sales. Sales that the cache does not have are looked up in one query, however
 * many skus the clients make up. False when it cannot be said whether there are sales for them. */
static bool find_sales(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    const char *skus[STOCK_BATCH_MAX];
    size_t unknown = 0;
    for (size_t i = 0; i < count; i++) {
        orders[i]->sale = sale_cache_find(stock->sale_cache, orders[i]->sku);
        if (!orders[i]->sale)
            skus[unknown++] = orders[i]->sku;
    }
    if (unknown == 0)
        return true;
    bool learnt = learn_sales(stock, skus, unknown);
    for (size_t i = 0; i < count; i++)
        if (!orders[i]->sale)
            orders[i]->sale = sale_cache_find(stock->sale_cache, orders[i]->sku);
    return learnt;
}

/* `found`: an order without a sale in the cache has none in the ledger either. */
static void begin_one(struct stock *stock, struct stock_order *order, bool found)
{
    if (!order->sale) {
        order->outcome = found ? STOCK_UNKNOWN_SKU : STOCK_UNAVAILABLE;
        return;
    }
    order->snapshot = &entry_of(stock->settings, order->sale)->snapshot;
    enum stock_outcome outcome =
        stock_closed(&order->snapshot->settings, order->created_ms, &order->at_ms);
    if (outcome != STOCK_OPEN)
        settings_refuse(stock, order, outcome);
}

void settings_begin(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    assert(count <= STOCK_BATCH_MAX);
    bool found = find_sales(stock, orders, count);
    stock->settings->count = 0;
    memset(stock->settings->slots, 0, sizeof stock->settings->slots);
    for (size_t i = 0; i < count; i++)
        begin_one(stock, orders[i], found);
}

/* Counts the version of an ended sale's settings on. That waits for the transactions under way, and
 * from then on the ledger refuses every order that was let in before the end. */
static enum stock_outcome fence_end(struct stock *stock, struct sale *sale)
{
    struct ledger_settings settings = sale_snapshot(sale).settings;
    int64_t ends_ms = settings.ends_ms;
    if (held_rows_expected(stock) && held_rows_of_sale(stock, sale))
        return STOCK_UNAVAILABLE;
    enum ledger_result result =
        ledger_settings_change(stock->ledger, sale_sku(sale), &settings, false);
    held_rows_met(stock, sale_sku(sale));
    if (result == LEDGER_OK)
        sale_fence_end(sale, ends_ms);
    if (result == LEDGER_OK || result == LEDGER_NO)
        stock_sale_reload(stock, sale_sku(sale), &sale);
    return result == LEDGER_OK   ? STOCK_ENDED
           : result == LEDGER_NO ? STOCK_AGAIN
                                 : STOCK_UNAVAILABLE;
}

void settings_fence_ended(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        struct stock_order *order = orders[i];
        if (order->outcome != STOCK_ENDED || order->key[0] == '\0' ||
            sale_end_fenced(order->sale, order->at_ms))
            continue;
        bool same = sale_snapshot(order->sale).settings.ends_ms == order->at_ms;
        order->outcome = same ? fence_end(stock, order->sale) : STOCK_AGAIN;
    }
}

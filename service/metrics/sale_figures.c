/* What is sold of each sale, for the metrics. */
#include "service/metrics/sale_figures.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "stock/sale_cache.h"

enum { SOON_MS = 3600 * 1000 }; /* a sale that starts within this time counts as a running one */

struct known_sale {
    struct ledger_sale sale;
    int64_t changed_ms; /* when its row, or what is sold of it, was last seen to be another */
    bool seen;          /* in the present pass over all sales */
};

static_assert((int)SALE_FIGURES_SHOWN_MAX <= (int)LEDGER_ORDERS_MAX,
              "one query finds all shown sales");

struct sale_figures {
    /* The thread's alone. */
    struct known_sale *known; /* SALES_MAX places, in order of skus */
    size_t count;
    char after[IDENTIFIER_SIZE]; /* the last sale of the page before */

    pthread_mutex_t mutex; /* guards what follows */
    struct sale_figures_view view;
};

struct sale_figures *sale_figures_open(void)
{
    struct sale_figures *figures = calloc(1, sizeof *figures);
    if (!figures || !(figures->known = calloc(SALES_MAX, sizeof *figures->known)))
        abort();
    pthread_mutex_init(&figures->mutex, NULL);
    return figures;
}

void sale_figures_close(struct sale_figures **figures)
{
    if (*figures) {
        pthread_mutex_destroy(&(*figures)->mutex);
        free((*figures)->known);
    }
    free(*figures);
    *figures = NULL;
}

bool sale_figures_open_at(const struct ledger_sale *sale, int64_t now_ms)
{
    const struct ledger_settings *settings = &sale->settings;
    return settings->starts_ms <= now_ms && (settings->ends_ms == 0 || now_ms < settings->ends_ms);
}

/* ---- the known sales ---- */

/* The place of the first sale whose sku is not before this one. */
static size_t find_place(const struct sale_figures *figures, const char *sku)
{
    size_t low = 0, high = figures->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (strcmp(figures->known[middle].sale.sku, sku) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void note_sale(struct sale_figures *figures, const struct ledger_sale *sale, int64_t now_ms)
{
    size_t place = find_place(figures, sale->sku);
    struct known_sale *known = &figures->known[place];
    if (place == figures->count || strcmp(known->sale.sku, sale->sku) != 0) {
        if (figures->count == SALES_MAX)
            return;
        memmove(known + 1, known, (figures->count - place) * sizeof *known);
        figures->count++;
        *known = (struct known_sale){.sale = *sale, .changed_ms = now_ms};
    } else if (known->sale.sold != sale->sold || known->sale.round != sale->round ||
               known->sale.settings.version != sale->settings.version) {
        known->changed_ms = now_ms;
    }
    known->sale = *sale;
    known->seen = true;
}

/* At the end of a pass: sales that it has not seen are retired. */
static void forget_unseen(struct sale_figures *figures)
{
    size_t kept = 0;
    for (size_t i = 0; i < figures->count; i++) {
        if (!figures->known[i].seen)
            continue;
        figures->known[kept] = figures->known[i];
        figures->known[kept++].seen = false;
    }
    figures->count = kept;
}

static bool read_page(struct sale_figures *figures, struct ledger *ledger, int64_t now_ms)
{
    struct ledger_sale sales[SALE_FIGURES_PAGE];
    size_t count = 0;
    if (ledger_sale_list(ledger, figures->after, SALE_FIGURES_PAGE, sales, &count) != LEDGER_OK)
        return false;
    for (size_t i = 0; i < count; i++)
        note_sale(figures, &sales[i], now_ms);
    if (count == SALE_FIGURES_PAGE) {
        memcpy(figures->after, sales[count - 1].sku, IDENTIFIER_SIZE);
    } else {
        forget_unseen(figures);
        figures->after[0] = '\0';
    }
    return true;
}

/* ---- the shown ones ---- */

struct candidate {
    const struct known_sale *known;
    bool running; /* or about to */
};

static int by_interest(const void *a, const void *b)
{
    const struct candidate *one = a, *other = b;
    if (one->running != other->running)
        return one->running ? -1 : 1;
    if (one->known->changed_ms != other->known->changed_ms)
        return one->known->changed_ms > other->known->changed_ms ? -1 : 1;
    return strcmp(one->known->sale.sku, other->known->sale.sku);
}

static int by_sku(const void *a, const void *b)
{
    const struct ledger_sale *one = a, *other = b;
    return strcmp(one->sku, other->sku);
}

/* Running sales and those that start soon come first, then those in which something happened last.
 * Returns how many were chosen. */
static size_t choose(const struct sale_figures *figures, int64_t now_ms,
                     struct ledger_sale chosen_out[SALE_FIGURES_SHOWN_MAX])
{
    struct candidate *all = calloc(figures->count + 1, sizeof *all);
    if (!all)
        abort();
    for (size_t i = 0; i < figures->count; i++) {
        const struct ledger_sale *sale = &figures->known[i].sale;
        bool running =
            sale_figures_open_at(sale, now_ms) ||
            (sale->settings.starts_ms > now_ms && sale->settings.starts_ms - now_ms < SOON_MS);
        all[i] = (struct candidate){.known = &figures->known[i], .running = running};
    }
    qsort(all, figures->count, sizeof *all, by_interest);
    size_t count = figures->count;
    if (count > SALE_FIGURES_SHOWN_MAX)
        count = SALE_FIGURES_SHOWN_MAX;
    for (size_t i = 0; i < count; i++)
        chosen_out[i] = all[i].known->sale;
    free(all);
    qsort(chosen_out, count, sizeof *chosen_out, by_sku);
    return count;
}

struct refreshing {
    struct sale_figures *figures;
    int64_t now_ms;
};

static void refresh(const struct ledger_sale *sale, void *context)
{
    struct refreshing *refreshing = context;
    note_sale(refreshing->figures, sale, refreshing->now_ms);
}

/* The page has just read all of them when there are no more sales than a page holds. */
static bool read_shown(struct sale_figures *figures, struct ledger *ledger, int64_t now_ms)
{
    struct ledger_sale shown[SALE_FIGURES_SHOWN_MAX];
    const char *skus[SALE_FIGURES_SHOWN_MAX];
    struct refreshing refreshing = {figures, now_ms};
    if (figures->count < SALE_FIGURES_PAGE)
        return true;
    size_t count = choose(figures, now_ms, shown);
    for (size_t i = 0; i < count; i++)
        skus[i] = shown[i].sku;
    enum ledger_result result = ledger_sales_find(ledger, skus, count, refresh, &refreshing);
    return result == LEDGER_OK || result == LEDGER_DAMAGED;
}

bool sale_figures_turn(struct sale_figures *figures, struct ledger *ledger, int64_t now_ms)
{
    struct ledger_sale shown[SALE_FIGURES_SHOWN_MAX];
    if (!read_page(figures, ledger, now_ms) || !read_shown(figures, ledger, now_ms))
        return false;
    size_t count = choose(figures, now_ms, shown);
    pthread_mutex_lock(&figures->mutex);
    figures->view.known = figures->count;
    figures->view.shown = count;
    figures->view.read_ms = now_ms;
    memcpy(figures->view.sales, shown, count * sizeof shown[0]);
    pthread_mutex_unlock(&figures->mutex);
    return true;
}

void sale_figures_view(struct sale_figures *figures, struct sale_figures_view *view_out)
{
    pthread_mutex_lock(&figures->mutex);
    *view_out = figures->view;
    pthread_mutex_unlock(&figures->mutex);
}

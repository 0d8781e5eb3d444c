/* Checks the service's promises against the answers and the ledger. */
#include "test/simulate/promise.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stock/returns/returns.h"
#include "test/simulate/machine/chance.h"
#include "test/simulate/ledger/ledger_session.h"
#include "test/simulate/ledger/ledger_table.h"
#include "test/simulate/ledger/ledger_text.h"
#include "test/simulate/machine/loop.h"
#include "test/simulate/servers/redis_store.h"
#include "test/simulate/scene.h"
#include "test/simulate/story.h"
#include "test/simulate/tally.h"

enum {
    STATES_MAX = 256,
    QTY_MAX = 64,
    ONCES_MAX = 64,
    GRACE_MS = 60,
    SETTINGS_MS = 110 /* for so long a process trusts the settings that it read */,
    GRACE_FAULTS_MS = 6000,
    WAITS_MS_MAX = 1300 /* of a batch: at the most four waits of 300 ms for rows */,
    GRACE_DAEMON_MS = 2100 /* it remembers for a second, and refuses for one more while it asks */,
    SLEEP_MS_MAX = 1250,
    SETTINGS_DAEMON_MS = 1010,
    HEARD_MS = 2 /* after which a daemon has taken in what it has heard */,
    LEFTS_MAX = 512
};

/* A status that was answered as final. */
struct state {
    uint64_t order_id;
    char status[16];
};

/* A restock, or a reset, as of one unit. */
struct once {
    char key[16];
    uint32_t units;
    bool done, doubt;
};

struct onces {
    struct once all[ONCES_MAX], *present;
    size_t count;
    bool was_doubt;
};

/* A sale, as far as the checks know it. */
struct watched {
    struct onces restocks, resets;
    int64_t short_ns[QTY_MAX]; /* when the ledger last had fewer than so many units */
    uint32_t left;
    int64_t settings_ns; /* when the round or the settings last changed */
    int64_t absent_ns;   /* when there last was no sale */
    uint32_t round, settings_version;
    struct {
        int64_t since_ns;
        uint32_t limit;
        bool refunds;
    } terms[2];                      /* for late payments: the present ones, and those before */
    int64_t heard_ns[PROCESSES_MAX]; /* when a daemon last heard of a change of it */
    struct left {
        int64_t since_ns;
        uint32_t round, left;
    } lefts[LEFTS_MAX]; /* the last ones, in a ring; a round of 0: there was no sale */
    size_t left_count;
};

static struct {
    char broken[VIOLATION_SIZE];
    struct given given[GIVEN_MAX];
    size_t given_count;
    struct state states[STATES_MAX];
    size_t state_count;
    struct watched sales[SCENE_SALES_MAX];
} now;

static struct watched *watched(const char *sku)
{
    return &now.sales[SCENE_SALE_OF(sku)];
}

void promise_begin(void)
{
    memset(&now, 0, offsetof(__typeof__(now), given));
    now.given_count = now.state_count = 0;
    for (size_t sale = 0; sale < SCENE_SALES_MAX; sale++) {
        struct watched *to = &now.sales[sale];
        to->restocks.count = to->resets.count = 0;
        to->left = to->round = to->settings_version = 0;
        to->settings_ns = INT64_MIN / 2;
        memset(to->terms, 0, sizeof to->terms);
        to->left_count = 0;
        for (size_t i = 0; i < PROCESSES_MAX; i++)
            to->heard_ns[i] = INT64_MIN / 2;
        to->absent_ns = loop_now_ns();
        for (size_t i = 0; i < QTY_MAX; i++)
            to->short_ns[i] = loop_now_ns();
    }
}

const char *promise_broken(void)
{
    return now.broken[0] != '\0' ? now.broken : NULL;
}

void promise_break(const char *format, ...)
{
    va_list arguments;
    if (now.broken[0] != '\0')
        return;
    va_start(arguments, format);
    vsnprintf(now.broken, sizeof now.broken, format, arguments);
    va_end(arguments);
    story("## BROKEN: %s", now.broken);
}

/* ---- the ledger by itself ---- */

static const struct version *sale_now(const char *sku)
{
    const struct row *row = row_of_sale(sku);
    return row && row->was.there ? &row->was : NULL;
}

static bool is_of(const struct version *version, const char *sku)
{
    return version->there && strcmp(version->sku, sku) == 0;
}

/* Told here once more, as the model's own functions may be wrong. */
int64_t promise_due_ms(const struct version *order)
{
    int64_t expires_ms = order->order.expires_ms;
    return expires_ms == 0 ? 0 : expires_ms + 1000 * (int64_t)order->order.grace_s;
}

uint32_t promise_held(const struct version *order)
{
    uint32_t units = order->order.unreturned;
    if (order->order.status == LEDGER_RESERVED || order->order.status == LEDGER_PAID)
        units += order->order.qty;
    return units;
}

/* An order of the sale's present round that has units. */
static bool holds_units(const struct version *order, const struct version *sale)
{
    return is_of(order, sale->sku) && order->order.round == sale->sale.round &&
           promise_held(order) > 0;
}

/* Never oversold; what the segments have sold is what the orders hold. */
static void check_segments(const struct version *sale)
{
    uint32_t units = 0, capacity = 0, sold = 0;
    const struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_ORDER, i)); i++)
        if (holds_units(&row->was, sale))
            units += promise_held(&row->was);
    for (size_t i = 0; (row = table_row(TABLE_SEGMENT, i)); i++) {
        const struct segment_row *segment = &row->was.segment;
        if (!is_of(&row->was, sale->sku))
            continue;
        capacity += segment->capacity;
        sold += segment->sold;
        if (segment->sold > segment->capacity)
            promise_break("oversold: segment %u has sold %u of %u", segment->segment, segment->sold,
                          segment->capacity);
    }
    if (sold != units)
        promise_break("the segments have sold %u, and the orders hold %u", sold, units);
    if (capacity != sale->sale.total)
        promise_break("the sale has %u units, and its segments %u", sale->sale.total, capacity);
    watched(sale->sku)->left = capacity - sold;
}

static uint32_t units_of_user(const char *user_id, const struct version *sale)
{
    uint32_t units = 0;
    const struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_ORDER, i)); i++)
        if (holds_units(&row->was, sale) && strcmp(row->was.user_id, user_id) == 0)
            units += promise_held(&row->was);
    return units;
}

/* Checks that each user's counted units are the units in the user's orders. */
static void check_quotas(const struct version *sale)
{
    const struct row *row;
    uint32_t round = sale->sale.round;
    if (sale->sale.settings.per_user_limit == 0 || count_seen(sale->sku, round, NULL))
        return;
    for (size_t i = 0; (row = table_row(TABLE_ORDER, i)); i++) {
        if (!holds_units(&row->was, sale))
            continue;
        const struct row *quota = row_of_quota(sale->sku, round, row->was.user_id);
        uint32_t units = units_of_user(row->was.user_id, sale);
        uint32_t counted = quota && quota->was.there ? quota->was.quota.units : 0;
        if (counted != units)
            promise_break("user %s has %u units, and %u are counted", row->was.user_id, units,
                          counted);
    }
}

/* A new order keeps to the settings that are in force when it is committed. */
static void check_settings(const struct version *sale, const struct version *order)
{
    const struct ledger_settings *settings = &sale->sale.settings;
    unsigned long long id = order->order.order_id;
    int64_t at_ms = 0;
    struct ledger_settings in_force = *settings;
    in_force.counting = count_seen(sale->sku, sale->sale.round, NULL) != NULL;
    if (order->order.round != sale->sale.round)
        promise_break("order %llu is of round %u, and the sale is in round %u", id,
                      order->order.round, sale->sale.round);
    if (stock_window_check(&in_force, order->order.created_ms, &at_ms) != STOCK_OPEN)
        promise_break("order %llu is accepted while the sale is closed", id);
    uint32_t units = units_of_user(order->user_id, sale);
    if (settings->per_user_limit > 0 && units > settings->per_user_limit)
        promise_break("user %s has %u units with order %llu, and the limit is %u", order->user_id,
                      units, id, settings->per_user_limit);
}

/* A key has one order: that of its row. */
static void check_key(const struct version *order)
{
    const struct row *key = row_of_key(order->user_id, order->key);
    if (order->key[0] != '\0' &&
        (!key || !key->was.there || key->was.key_order_id != order->order.order_id))
        promise_break("order %llu is not the one of its key %s",
                      (unsigned long long)order->order.order_id, order->key);
}

static const struct given *given_of(uint64_t order_id)
{
    for (size_t i = now.given_count; i-- > 0;)
        if (now.given[i].order_id == order_id)
            return &now.given[i];
    return NULL;
}

static bool may_be_there(const struct given *given)
{
    return !given->answered || given->outcome == STOCK_ACCEPTED ||
           given->outcome == STOCK_IN_DOUBT || given->outcome == STOCK_OPEN;
}

/* A repeat that came when the time of its first try was over was refused for good. */
static void check_refused_before(const struct given *first)
{
    for (size_t i = 0; i < now.given_count && first->until_ns != 0 && first->key[0] != '\0'; i++) {
        const struct given *repeat = &now.given[i];
        if (repeat->answered && stock_outcome_refused(repeat->outcome) &&
            repeat->since_ns >= first->until_ns && strcmp(repeat->key, first->key) == 0 &&
            strcmp(repeat->user_id, first->user_id) == 0)
            promise_break("order %llu of key %s is accepted, and its repeat %llu was refused when "
                          "its time was over",
                          (unsigned long long)first->order_id, first->key,
                          (unsigned long long)repeat->order_id);
    }
}

static void check_new_orders(const struct txn *txn)
{
    for (size_t i = 0; i < txn->count; i++) {
        const struct row *row = txn->rows[i];
        if (row->table != TABLE_ORDER || !row->was.there || row->committed_ns != loop_now_ns())
            continue;
        const struct given *given = given_of(row->was.order.order_id);
        const struct version *sale = sale_now(row->was.sku);
        if (sale)
            check_settings(sale, &row->was);
        else
            promise_break("order %llu is accepted, and there is no such sale",
                          (unsigned long long)row->was.order.order_id);
        check_key(&row->was);
        if (given && !may_be_there(given))
            promise_break("order %llu was answered as not done, and is committed",
                          (unsigned long long)given->order_id);
        if (given)
            check_refused_before(given);
    }
}

static void note_settings(const struct version *version)
{
    struct watched *to = watched(version->sku);
    const struct sale_row *sale = &version->sale;
    bool first = to->round == 0;
    if (!first && (sale->round != to->round || sale->settings.version != to->settings_version))
        to->settings_ns = loop_now_ns();
    to->round = sale->round;
    to->settings_version = sale->settings.version;
    const struct ledger_settings *settings = &sale->settings;
    bool refunds = settings->refund_late;
    if (to->terms[0].limit == settings->per_user_limit && to->terms[0].refunds == refunds)
        return;
    to->terms[1] = to->terms[0];
    to->terms[0].since_ns = loop_now_ns();
    to->terms[0].limit = settings->per_user_limit;
    to->terms[0].refunds = refunds;
}

/* Where there is no sale, nothing is left of one, and no order can return units. */
static void check_absent(const char *sku)
{
    const struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_SEGMENT, i)); i++)
        if (is_of(&row->was, sku))
            promise_break("segment %u of %s is there, and there is no such sale",
                          row->was.segment.segment, sku);
    uint64_t reserved = promise_reserved(sku, false);
    if (reserved != 0)
        promise_break("order %llu of %s is reserved, and there is no such sale",
                      (unsigned long long)reserved, sku);
    watched(sku)->left = 0;
    watched(sku)->absent_ns = loop_now_ns();
}

static void check_sale(const char *sku)
{
    const struct version *sale = sale_now(sku);
    struct watched *to = watched(sku);
    uint32_t before = to->left;
    if (sale) {
        note_settings(sale);
        check_segments(sale);
        check_quotas(sale);
    } else {
        check_absent(sku);
    }
    for (uint32_t qty = 0; qty < QTY_MAX; qty++)
        if (before < qty || to->left < qty)
            to->short_ns[qty] = loop_now_ns();
    struct left left = {loop_now_ns(), sale ? sale->sale.round : 0, to->left};
    const struct left *last = &to->lefts[(to->left_count - 1) % LEFTS_MAX];
    if (to->left_count == 0 || last->round != left.round || last->left != left.left)
        to->lefts[to->left_count++ % LEFTS_MAX] = left;
}

/* After a loss of what was not on the disk this compares as well. */
void promise_commit(const struct txn *txn)
{
    promise_redis();
    for (int i = 0; i < scene.sales; i++)
        check_sale(SCENE_SKU(i));
    check_new_orders(txn);
}

void promise_prompt(int64_t start_ns)
{
    int64_t took_ms = (loop_now_ns() - start_ns) / LOOP_MS;
    for (int kind = 0; kind < FAULT_COUNT; kind++)
        if (kind != FAULT_ROW_HELD && chance_struck_kind((enum fault_kind)kind))
            return;
    if (took_ms > WAITS_MS_MAX)
        promise_break("a batch took %lld ms, and only rows were held", (long long)took_ms);
}

uint32_t promise_left(const char *sku)
{
    const struct version *sale = sale_now(sku);
    if (!sale)
        return 0;
    check_segments(sale);
    return watched(sku)->left;
}

uint64_t promise_reserved(const char *sku, bool overdue)
{
    const struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_ORDER, i)); i++) {
        const struct order_row *order = &row->was.order;
        int64_t due_ms = promise_due_ms(&row->was);
        bool due = due_ms != 0 && due_ms <= ledger_server_ms();
        if (is_of(&row->was, sku) && order->status == LEDGER_RESERVED && (!overdue || due))
            return order->order_id;
    }
    return 0;
}

/* ---- Redis beside the ledger ---- */

static uint64_t number_in(const struct store_value *segment, const char *name)
{
    const char *text = store_field(segment, name);
    return text ? strtoull(text, NULL, 10) : 0;
}

/* Its key in Redis: written once, as it is asked for after every script. */
static const char *key_of(const char *sku, uint32_t segment)
{
    static char keys[SCENE_SALES_MAX][SCENE_SEGMENTS_MAX][STORE_KEY_MAX];
    char *key = keys[SCENE_SALE_OF(sku)][segment];
    if (key[0] == '\0')
        snprintf(key, STORE_KEY_MAX, "seckill:{%s:%u}:segment", sku, segment);
    return key;
}

/* A segment that Redis calls settled at the ledger's own fence has what the ledger has left. */
static void check_redis(const char *sku, const struct segment_row *row)
{
    const struct store_value *segment = store_get(key_of(sku, row->segment), INT64_MIN);
    const char *open = segment->kind == STORE_HASH ? store_field(segment, "open") : NULL;
    if (!open || open[0] != '\0' || number_in(segment, "settled") != row->fence ||
        number_in(segment, "round") != row->round)
        return;
    uint64_t available = number_in(segment, "available");
    uint32_t left = row->capacity - row->sold;
    if (available != left)
        promise_break("segment %u is settled at the ledger's fence with %llu units left, not %u",
                      row->segment, (unsigned long long)available, left);
}

void promise_redis(void)
{
    const struct row *row;
    for (size_t i = 0; scene.locked && (row = table_row(TABLE_SEGMENT, i)); i++)
        if (row->was.there)
            check_redis(row->was.sku, &row->was.segment);
}

/* Without a fault, and while nobody changes the sale, each update finds its fence. */
void promise_calm(const struct stock_stats *stats)
{
    const uint32_t *struck;
    const struct version *sale = sale_now(SCENE_SKU(0));
    if (chance_struck(&struck) == 0 && scene.sales == 1 && scene.locked && sale &&
        sale->sale.settings.version == 1 && stats->refusals > 0)
        promise_break("the ledger refused an update, and nothing had failed");
}

/* ---- orders ---- */

struct given *promise_give(const struct stock_order *order)
{
    assert(now.given_count < GIVEN_MAX);
    struct given *given = &now.given[now.given_count++];
    *given = (struct given){.order_id = order->order_id,
                            .qty = order->qty,
                            .since_ns = loop_now_ns(),
                            .until_ns = order->until_ns,
                            .created_ms = order->created_ms};
    given->process = task_current()->process;
    strcpy(given->sku, order->sku);
    strcpy(given->user_id, order->user_id);
    strcpy(given->key, order->key);
    return given;
}

const struct given *promise_given(size_t i)
{
    return i < now.given_count ? &now.given[i] : NULL;
}

size_t promise_given_count(void)
{
    return now.given_count;
}

uint64_t promise_pick_order(struct chance *chance)
{
    size_t count = promise_given_count();
    uint32_t pick = chance_below(chance, 1u << 16);
    for (size_t i = 0; i < count; i++) {
        const struct given *given = promise_given((pick + i) % count);
        if (!given->answered || given->outcome == STOCK_ACCEPTED ||
            given->outcome == STOCK_IN_DOUBT)
            return given->order_id;
    }
    return 1;
}

static const struct row *row_on_disk(uint64_t order_id)
{
    const struct row *row = row_of_order(order_id);
    const struct version *disk = row ? (row->on_disk ? &row->was : &row->disk) : NULL;
    return disk && disk->there ? row : NULL;
}

/* The units that an order was made for. */
static uint32_t ordered(const struct row *order)
{
    return order->was.order.ordered > 0 ? order->was.order.ordered : order->was.order.qty;
}

/* An accepted order is on the disk, and what it was asked to be. */
static void check_accepted(const struct given *given, uint64_t order_id)
{
    const struct row *row = row_on_disk(order_id);
    unsigned long long id = order_id;
    if (!row) {
        promise_break("order %llu was accepted, and is not on the disk", id);
        return;
    }
    if (strcmp(row->was.sku, given->sku) != 0 || strcmp(row->was.user_id, given->user_id) != 0 ||
        ordered(row) != given->qty || strcmp(row->was.key, given->key) != 0)
        promise_break("order %llu was accepted, and the ledger has another one", id);
}

static void check_replayed(const struct given *given, uint64_t order_id)
{
    const struct row *key = row_of_key(given->user_id, given->key);
    check_accepted(given, order_id);
    if (!key || !key->was.there || key->was.key_order_id != order_id)
        promise_break("key %s was answered with order %llu, which is not its own", given->key,
                      (unsigned long long)order_id);
}

void promise_replayed(const struct given *given, uint64_t order_id)
{
    check_replayed(given, order_id);
}

static bool is_same(const struct row *order, const struct given *given)
{
    return ordered(order) == given->qty && strcmp(order->was.sku, given->sku) == 0;
}

static void check_reused(const struct given *given)
{
    const struct row *key = row_of_key(given->user_id, given->key);
    const struct row *order = key && key->was.there ? row_of_order(key->was.key_order_id) : NULL;
    if (!order || is_same(order, given))
        promise_break("key %s was refused as used for another order", given->key);
}

/* A repeat is not refused when its first try was accepted before the repeat came. */
void promise_refused(const struct given *given)
{
    const struct row *key = row_of_key(given->user_id, given->key);
    if (given->key[0] == '\0' || !key || !key->was.there || !key->on_disk ||
        key->committed_ns >= given->since_ns)
        return;
    const struct row *order = row_on_disk(key->was.key_order_id);
    if (order && is_same(order, given))
        promise_break("key %s was refused, and its order %llu accepted before", given->key,
                      (unsigned long long)key->was.key_order_id);
}

/* What a process has heard of the ledger counts for a moment longer, and longer still when its
 * messages are lost. */
static int64_t grace_ns(void)
{
    const uint32_t *struck;
    int64_t faults_ms = scene.daemons ? GRACE_DAEMON_MS : GRACE_FAULTS_MS;
    return (chance_struck(&struck) > 0 ? faults_ms : GRACE_MS) * LOOP_MS;
}

/* Likewise for calls, whose daemon is not asked what it has heard. */
int64_t promise_grace_ms(void)
{
    const uint32_t *struck;
    return chance_struck(&struck) > 0 ? GRACE_FAULTS_MS
           : scene.daemons            ? GRACE_DAEMON_MS
                                      : SETTINGS_MS;
}

bool promise_was_short(const char *sku, uint32_t qty, int64_t since_ns)
{
    return qty >= QTY_MAX || watched(sku)->left < qty || watched(sku)->short_ns[qty] >= since_ns;
}

bool promise_takes_late(const char *sku, uint32_t units, int64_t since_ns)
{
    const struct watched *to = watched(sku);
    bool takes = to->absent_ns < since_ns && to->terms[1].since_ns < since_ns;
    for (int i = 0; i < 2; i++) {
        bool counts = i == 0 || to->terms[0].since_ns >= since_ns;
        uint32_t limit = to->terms[i].limit;
        takes &= !counts || (!to->terms[i].refunds && (limit == 0 || units <= limit));
    }
    return takes;
}

bool promise_settings_changed(const char *sku, int64_t since_ns)
{
    return watched(sku)->settings_ns >= since_ns;
}

void promise_heard(const struct process *process, const char *message)
{
    for (int i = 0; i < scene.sales; i++)
        if (!message || message[0] == SCENE_SKU(i)[0])
            now.sales[i].heard_ns[process->number] = loop_now_ns();
}

/* True when the daemon had heard of a change after that time, and taken it in, before `since_ns`:
 * what it knew before must not count any more. */
static bool has_heard(const struct process *process, const char *sku, int64_t changed_ns,
                      int64_t since_ns)
{
    int64_t heard_ns = watched(sku)->heard_ns[process->number];
    int64_t awake_ns = process->asleep_until_ns;
    return process->listens && heard_ns > changed_ns &&
           (heard_ns > awake_ns ? heard_ns : awake_ns) + HEARD_MS * LOOP_MS < since_ns;
}

void promise_sold_out(const char *sku, uint32_t qty, int64_t since_ns,
                      const struct process *process)
{
    uint32_t left = promise_left(sku);
    const int64_t *short_ns = watched(sku)->short_ns;
    if (scene.counters || left < qty || qty >= QTY_MAX)
        return;
    int64_t ms = (loop_now_ns() - short_ns[qty]) / LOOP_MS;
    int64_t grace = grace_ns();
    if (process->asleep_until_ns > short_ns[qty]) /* between the ledger's answer and its note */
        grace += SLEEP_MS_MAX * LOOP_MS;
    if (short_ns[qty] + grace < since_ns)
        promise_break("an order for %u was sold out, and the ledger had %u for %lld ms", qty, left,
                      (long long)ms);
    else if (has_heard(process, sku, short_ns[qty], since_ns))
        promise_break("an order for %u was sold out, and the ledger had %u for %lld ms, which the "
                      "daemon had heard of",
                      qty, left, (long long)ms);
}

/* Sold out is said only when the ledger had too few units, then or a moment before. */
static void check_sold_out(const struct given *given)
{
    promise_sold_out(given->sku, given->qty, given->since_ns, given->process);
}

/* The ledger had so many units left at some time since. */
void promise_stock(const char *sku, uint32_t round, uint32_t left, int64_t since_ns,
                   const struct process *process)
{
    const struct watched *of = watched(sku);
    check_sale(sku); /* a server that has died may have lost the last change */
    if (process->asleep_until_ns > since_ns)
        since_ns = INT64_MIN; /* it slept with what it knew */
    for (size_t i = of->left_count; i > 0 && i + LEFTS_MAX > of->left_count; i--) {
        const struct left *then = &of->lefts[(i - 1) % LEFTS_MAX];
        if (then->round == round && then->left == left)
            return;
        if (then->since_ns < since_ns)
            break;
    }
    promise_break("the stock of %s was told as %u in round %u, which it was not for a while", sku,
                  left, round);
}

/* All units that a user had in a round at any time, and so no fewer than at any one time. */
static uint32_t units_ever(const char *user_id, const struct version *sale)
{
    uint32_t units = 0;
    const struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_ORDER, i)); i++)
        if (is_of(&row->was, sale->sku) && row->was.order.round == sale->sale.round &&
            strcmp(row->was.user_id, user_id) == 0)
            units += ordered(row);
    return units;
}

/* True while settings count that were replaced not long ago. */
static bool is_settling(const char *sku, int64_t since_ns, const struct process *process)
{
    int64_t trust_ms = scene.daemons ? SETTINGS_DAEMON_MS : SETTINGS_MS;
    int64_t changed_ns = watched(sku)->settings_ns;
    return changed_ns + trust_ms * LOOP_MS >= since_ns &&
           !has_heard(process, sku, changed_ns, since_ns);
}

/* Orders that a crash of the server has lost may have counted. */
static void check_limit(const struct given *given)
{
    const struct version *sale = sale_now(given->sku);
    if (chance_struck_kind(FAULT_LEDGER_CRASH))
        return;
    if (!sale || is_settling(given->sku, given->since_ns, given->process))
        return;
    uint32_t limit = sale->sale.settings.per_user_limit;
    uint32_t units = units_ever(given->user_id, sale);
    if (limit == 0 || units + given->qty <= limit)
        promise_break("user %s never had more than %u units, and was refused %u by a limit of %u",
                      given->user_id, units, given->qty, limit);
}

static const char *outcome_name(enum stock_outcome outcome)
{
    static const char *const names[] = {
        [STOCK_OPEN] = "open",
        [STOCK_ACCEPTED] = "accepted",
        [STOCK_REPLAYED] = "replayed",
        [STOCK_KEY_REUSED] = "key reused",
        [STOCK_SOLD_OUT] = "sold out",
        [STOCK_NOT_STARTED] = "not started",
        [STOCK_ENDED] = "ended",
        [STOCK_PAUSED] = "paused",
        [STOCK_COUNTING] = "counting",
        [STOCK_LIMIT] = "above the limit",
        [STOCK_RATE_LIMITED] = "rate limited",
        [STOCK_UNKNOWN_SKU] = "unknown sku",
        [STOCK_AGAIN] = "again",
        [STOCK_UNAVAILABLE] = "unavailable",
        [STOCK_IN_DOUBT] = "in doubt",
    };
    size_t count = sizeof names / sizeof names[0];
    return (size_t)outcome < count && names[outcome] ? names[outcome] : "?";
}

static bool is_closed(enum stock_outcome outcome)
{
    return outcome == STOCK_NOT_STARTED || outcome == STOCK_ENDED || outcome == STOCK_PAUSED ||
           outcome == STOCK_COUNTING;
}

/* The sale was closed to the order, by settings that had not been replaced long ago. */
static void check_closed(const struct given *given, enum stock_outcome outcome)
{
    const struct version *sale = sale_now(given->sku);
    int64_t at_ms = 0;
    if (!sale || is_settling(given->sku, given->since_ns, given->process))
        return;
    struct ledger_settings in_force = sale->sale.settings;
    in_force.counting = count_seen(sale->sku, sale->sale.round, NULL) != NULL;
    if (stock_window_check(&in_force, given->created_ms, &at_ms) == STOCK_OPEN)
        promise_break("order %llu was refused as %s, and the sale was open",
                      (unsigned long long)given->order_id, outcome_name(outcome));
}

/* Likewise, by a daemon whose clock is not known here: the sale has no window at all. */
void promise_closed(const char *sku, int64_t since_ns, const struct process *process)
{
    const struct version *sale = sale_now(sku);
    if (!sale || is_settling(sku, since_ns, process))
        return;
    const struct ledger_settings *settings = &sale->sale.settings;
    if (!settings->paused && settings->starts_ms == 0 && settings->ends_ms == 0 &&
        !count_seen(sale->sku, sale->sale.round, NULL))
        promise_break("an order of %s was refused at once as if it was closed", sku);
}

/* There was no sale, then or a moment before. */
static void check_unknown_sku(const struct given *given)
{
    if (sale_now(given->sku) && watched(given->sku)->absent_ns + grace_ns() < given->since_ns &&
        row_of_sale(given->sku)->committed_ns + grace_ns() < given->since_ns)
        promise_break("order %llu was refused for its sku %s, which was there",
                      (unsigned long long)given->order_id, given->sku);
}

/* A user who never came more often than a burst allows is within the rate. A clock of Redis that
 * steps back makes what it has noted too late. */
static void check_rate(const struct given *given)
{
    uint32_t count = 0;
    for (size_t i = 0; i < now.given_count; i++)
        count += strcmp(now.given[i].user_id, given->user_id) == 0;
    if (scene.rate_burst == 0 ||
        (count <= scene.rate_burst && !chance_struck_kind(FAULT_REDIS_CLOCK)))
        promise_break("order %llu of %s was refused by its rate, after %u orders of %s",
                      (unsigned long long)given->order_id, given->sku, count, given->user_id);
}

/* Without a fault every order is decided. */
static void check_undecided(const struct given *given)
{
    const uint32_t *struck;
    if (chance_struck(&struck) == 0)
        promise_break("order %llu was not decided, and nothing had failed",
                      (unsigned long long)given->order_id);
}

void promise_answer(struct given *given, const struct stock_order *order)
{
    given->answered = true;
    given->outcome = order->outcome;
    tally(outcome_name(order->outcome));
    if (order->outcome == STOCK_ACCEPTED)
        tally_add("units accepted", given->qty);
    story("  order %llu of %s for %u of %s%s%s: %s", (unsigned long long)given->order_id,
          given->user_id, given->qty, given->sku, given->key[0] ? ", key " : "", given->key,
          outcome_name(order->outcome));
    if (order->outcome == STOCK_ACCEPTED)
        check_accepted(given, given->order_id);
    else if (row_of_order(given->order_id) && row_of_order(given->order_id)->was.there &&
             order->outcome != STOCK_IN_DOUBT)
        promise_break("order %llu was answered as %s, and is committed",
                      (unsigned long long)given->order_id, outcome_name(order->outcome));
    if (order->outcome == STOCK_REPLAYED)
        check_replayed(given, order->order_id);
    if (order->outcome == STOCK_KEY_REUSED)
        check_reused(given);
    if (stock_outcome_refused(order->outcome))
        promise_refused(given);
    if (order->outcome == STOCK_SOLD_OUT)
        check_sold_out(given);
    if (order->outcome == STOCK_LIMIT)
        check_limit(given);
    if (order->outcome == STOCK_UNKNOWN_SKU)
        check_unknown_sku(given);
    if (order->outcome == STOCK_RATE_LIMITED)
        check_rate(given);
    if (is_closed(order->outcome))
        check_closed(given, order->outcome);
    if (order->outcome == STOCK_UNAVAILABLE || order->outcome == STOCK_IN_DOUBT)
        check_undecided(given);
}

/* ---- the rest ---- */

/* What an order with that status may have become since: a late payment pays one that has expired,
 * which can also be cancelled, and a payment may be refunded, or fail, which begins anew. */
static bool may_have_become(const char *from, enum ledger_status to)
{
    enum ledger_status was = ledger_status_of(from);
    return was == to || was == LEDGER_PAID || was == LEDGER_EXPIRED;
}

static void check_state(const struct state *state)
{
    const struct row *row = row_on_disk(state->order_id);
    const struct version *disk = row ? (row->on_disk ? &row->was : &row->disk) : NULL;
    const char *status = disk ? ledger_status_name(disk->order.status) : "gone";
    if (!disk || !may_have_become(state->status, disk->order.status))
        promise_break("order %llu was answered as %s, and is %s",
                      (unsigned long long)state->order_id, state->status, status);
}

void promise_status(uint64_t order_id, const char *status)
{
    if (now.state_count == STATES_MAX || strcmp(status, "reserved") == 0)
        return;
    struct state *state = &now.states[now.state_count++];
    state->order_id = order_id;
    snprintf(state->status, sizeof state->status, "%s", status);
    check_state(state);
}

void promise_state(const struct stock_status_change *change, const char *wanted)
{
    const char *status = change->record.status;
    bool final = change->result == STOCK_STATE_OK ||
                 (change->result == STOCK_STATE_REFUSED && strcmp(status, "reserved") != 0);
    if (change->result == STOCK_STATE_OK && change->moved)
        tally(strcmp(wanted, "paid") == 0        ? "order paid"
              : strcmp(wanted, "cancelled") == 0 ? "order cancelled"
                                                 : "order refunded");
    story("  order %llu is to be %s: %s", (unsigned long long)change->record.order_id, wanted,
          change->result == STOCK_STATE_OK         ? "done"
          : change->result == STOCK_STATE_REFUSED  ? "refused"
          : change->result == STOCK_STATE_IN_DOUBT ? "in doubt"
                                                   : "not done");
    if (change->result == STOCK_STATE_OK && strcmp(status, wanted) != 0)
        promise_break("order %llu was answered as %s by its record, and is to be %s",
                      (unsigned long long)change->record.order_id, status, wanted);
    if (final)
        promise_status(change->record.order_id, status);
}

void promise_unknown(uint64_t order_id, int64_t since_ns)
{
    const struct row *row = row_on_disk(order_id);
    if (row && row->committed_ns < since_ns)
        promise_break("order %llu is told as unknown, and is there", (unsigned long long)order_id);
}

/* The operator asks for one thing at a time. One who dies leaves it in doubt. */
static void begin_once(struct onces *onces, const char *key, uint32_t units)
{
    size_t i = 0;
    while (i < onces->count && (key[0] == '\0' || strcmp(onces->all[i].key, key) != 0))
        i++;
    assert(i < ONCES_MAX);
    if (i == onces->count) {
        onces->all[onces->count++] = (struct once){.units = units};
        strcpy(onces->all[i].key, key);
    }
    onces->present = &onces->all[i];
    onces->was_doubt = onces->present->doubt;
    onces->present->doubt = true;
}

static void end_once(struct onces *onces, bool done, bool doubt)
{
    onces->present->done |= done;
    onces->present->doubt = onces->was_doubt || doubt;
}

static void check_onces(const struct onces *onces, uint64_t seen, const char *what)
{
    uint64_t least = 0, most = 0;
    for (size_t i = 0; i < onces->count; i++) {
        const struct once *once = &onces->all[i];
        least += once->done ? once->units : 0;
        most += once->done || once->doubt ? once->units : 0;
    }
    if (seen < least || seen > most)
        promise_break("%s: %llu to %llu were answered, and %llu were done", what,
                      (unsigned long long)least, (unsigned long long)most,
                      (unsigned long long)seen);
}

void promise_restock_begin(const char *sku, const char *key, uint32_t units)
{
    begin_once(&watched(sku)->restocks, key, units);
}

void promise_restock_end(const char *sku, bool done, bool doubt)
{
    end_once(&watched(sku)->restocks, done, doubt);
}

void promise_reset_begin(const char *sku, const char *key)
{
    begin_once(&watched(sku)->resets, key, 1);
}

void promise_reset_end(const char *sku, bool done, bool doubt)
{
    end_once(&watched(sku)->resets, done, doubt);
}

void promise_retired(const char *sku, uint32_t round)
{
    const struct row *row = row_of_sale(sku);
    const struct version *disk = row && row->on_disk ? &row->was : row ? &row->disk : NULL;
    if (disk && disk->there && disk->sale.round <= round)
        promise_break("%s was answered as retired, and is there in round %u", sku,
                      disk->sale.round);
}

/* Orders of rounds that are over have ended, or were paid before. */
static void check_old_rounds(const struct version *sale)
{
    const struct row *row;
    for (size_t i = 0; (row = table_row(TABLE_ORDER, i)); i++)
        if (is_of(&row->was, sale->sku) && row->was.order.round < sale->sale.round &&
            row->was.order.status == LEDGER_RESERVED)
            promise_break("order %llu of round %u is still reserved in round %u",
                          (unsigned long long)row->was.order.order_id, row->was.order.round,
                          sale->sale.round);
}

static void end_sale(const char *sku)
{
    const struct version *sale = sale_now(sku);
    if (!sale)
        return;
    check_segments(sale);
    check_quotas(sale);
    check_onces(&watched(sku)->restocks, sale->sale.restocked, "units of restocks");
    check_onces(&watched(sku)->resets, sale->sale.round, "resets");
    check_old_rounds(sale);
}

void promise_end(void)
{
    for (int i = 0; i < scene.sales; i++)
        end_sale(SCENE_SKU(i));
    for (size_t i = 0; i < now.given_count; i++) {
        const struct given *given = &now.given[i];
        const struct row *row = row_of_order(given->order_id);
        if (given->answered && given->outcome == STOCK_ACCEPTED)
            check_accepted(given, given->order_id);
        else if (row && row->was.there && !may_be_there(given))
            promise_break("order %llu was answered as %s, and is committed",
                          (unsigned long long)given->order_id, outcome_name(given->outcome));
    }
    for (size_t i = 0; i < now.state_count; i++)
        check_state(&now.states[i]);
}

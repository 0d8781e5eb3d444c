/* An order as its answers show it: the one serialiser, and the answer to each outcome. */
#include "service/request/order_answer.h"

#include <assert.h>
#include <stdio.h>

#include "base/memory.h"
#include "service/metrics/metrics.h"
#include "sql/orders/orders.h"

/* Among printable ASCII, JSON escapes only these two. */
char *order_put_escaped(char *at, const char *text)
{
    for (;; text++) {
        size_t plain = strcspn(text, "\"\\");
        memcpy(at, text, plain);
        at += plain;
        text += plain;
        if (*text == '\0')
            return at;
        *at++ = '\\';
        *at++ = *text;
    }
}

/* Skus, statuses and times need no JSON escapes: their alphabets contain nothing to escape. */
char *order_put(char *at, const struct order_text *order)
{
    at = order_put_number(at, "{\"order_id\":\"", order->order_id);
    at = stpcpy(at, "\",\"sku\":\"");
    at = stpcpy(at, order->sku);
    at = order_put_number(at, "\",\"round\":", order->round);
    at = stpcpy(at, ",\"user_id\":\"");
    at = order_put_escaped(at, order->user_id);
    at = order_put_number(at, "\",\"qty\":", order->qty);
    if (order->ordered != 0)
        at = order_put_number(at, ",\"ordered_qty\":", order->ordered);
    at = order_put_number(at, ",\"segment\":", order->segment);
    if (order->version != 0)
        at = order_put_number(at, ",\"version\":", order->version);
    at = stpcpy(at, ",\"status\":\"");
    at = stpcpy(at, order->status);
    at = stpcpy(at, "\",\"created_at\":\"");
    at = stpcpy(at, order->created_at);
    if (order->expires_at[0] != '\0') {
        at = stpcpy(at, "\",\"expires_at\":\"");
        at = stpcpy(at, order->expires_at);
    }
    return stpcpy(at, "\"}");
}

/* An order fits into the answer's inline text: no allocation. */
static void answer_text_of(struct answer *answer, unsigned status, const struct order_text *order)
{
    static_assert((int)ORDER_TEXT_MAX <= (int)ANSWER_INLINE_MAX, "see answer_begin");
    char *text = answer_begin(answer, status, "application/json");
    char *end = stpcpy(order_put(text, order), "\n");
    answer->length = (size_t)(end - text);
    assert(answer->length <= ORDER_TEXT_MAX);
}

void order_answer_record(struct answer *answer, const struct ledger_record *record,
                         uint32_t version)
{
    struct order_text order = ORDER_TEXT(record, record->status);
    order.version = version;
    answer_text_of(answer, 200, &order);
}

void order_put_payment(char members_out[PAYMENT_MEMBERS_MAX], const struct ledger_payment *payment)
{
    char *at = stpcpy(members_out, ",\"payment_ref\":\"");
    at = stpcpy(order_put_escaped(at, payment->ref), "\",\"payment_state\":\"");
    stpcpy(stpcpy(at, ledger_payment_state_name(payment->state)), "\"");
}

void order_answer_payment(struct answer *answer, const struct ledger_record *record,
                          const char members[PAYMENT_MEMBERS_MAX])
{
    static const char type[] = "application/json";
    char whole[ORDER_TEXT_MAX + PAYMENT_MEMBERS_MAX];
    struct order_text order = ORDER_TEXT(record, record->status);
    char *end = order_put(whole, &order) - 1; /* in the place of the bracket */
    end = stpcpy(stpcpy(end, members), "}\n");
    size_t length = (size_t)(end - whole);
    if (length <= ANSWER_INLINE_MAX) {
        memcpy(answer_begin(answer, 200, type), whole, length);
        answer->length = length;
        return;
    }
    char *text = memory_must(malloc(length));
    answer_text(answer, 200, type, memcpy(text, whole, length), length);
}

/* `order_status`: the order's present status, which a replay may find changed. */
static void answer_accepted(struct answer *answer, unsigned status, const char *order_status,
                            const struct stock_order *accepted)
{
    struct order_text order = ORDER_TEXT(accepted, order_status);
    answer_text_of(answer, status, &order);
}

/* Adds the time when the sale opens or ended. */
static void answer_closed(struct answer *answer, enum problem problem, const char *member,
                          const struct stock_order *order)
{
    char time[LEDGER_TIME_SIZE];
    ledger_time_format(order->at_ms, time);
    answer_members(answer, problem, NULL, ",\"%s\":\"%s\"", member, time);
}

/* RETRY_AFTER_S_MAX is for an opening days away, which may be brought forward. */
static void answer_not_started(struct answer *answer, const struct stock_order *order)
{
    int64_t wait_s = (order->at_ms - order->created_ms + 999) / 1000;
    answer_closed(answer, PROBLEM_NOT_STARTED, "starts_at", order);
    answer->retry_after_s = wait_s < 1                   ? 1
                            : wait_s > RETRY_AFTER_S_MAX ? RETRY_AFTER_S_MAX
                                                         : (unsigned)wait_s;
}

/* Adds the ids of the user's orders. */
static void answer_limit(struct answer *answer, const struct stock_history *history)
{
    char orders[LEDGER_QUOTA_ORDERS_MAX * 24] = "", *at = orders;
    assert(history->order_count <= LEDGER_QUOTA_ORDERS_MAX);
    for (size_t i = 0; i < history->order_count; i++)
        at +=
            sprintf(at, "%s\"%llu\"", i == 0 ? "" : ",", (unsigned long long)history->order_ids[i]);
    answer_members(answer, PROBLEM_LIMIT, NULL, ",\"limit\":%u,\"orders\":[%s]", history->limit,
                   orders);
}

static unsigned whole_seconds(int64_t ms)
{
    return ms > 0 ? (unsigned)((ms + 999) / 1000) : 1;
}

/* Spreads the waits of clients that are refused together, up to half as long again, so that they do
 * not come back together. The order's id serves as a random number. */
static void answer_rate_limited(struct answer *answer, const struct stock_order *order)
{
    const struct stock_rate_status *over = &order->rate_status;
    unsigned retry_s = whole_seconds(over->retry_ms);
    uint64_t spread = order->order_id * UINT64_C(0x9e3779b97f4a7c15) >> 33;
    answer_detail(answer, PROBLEM_RATE_LIMITED, NULL);
    answer->retry_after_s = retry_s + (unsigned)(spread % (retry_s / 2 + 2));
    answer->limit = over->burst;
    answer->reset_s = whole_seconds(over->reset_ms);
}

/* Counter and, for a refusal, problem of each outcome. STOCK_AGAIN: the service stops. */
static const struct {
    enum metrics_counter counter;
    enum problem problem;
} outcomes[] = {
    [STOCK_OPEN] = {METRIC_ORDERS_UNAVAILABLE, PROBLEM_NONE},
    [STOCK_ACCEPTED] = {METRIC_ORDERS_ACCEPTED, PROBLEM_NONE},
    [STOCK_REPLAYED] = {METRIC_ORDERS_REPLAYED, PROBLEM_NONE},
    [STOCK_KEY_REUSED] = {METRIC_ORDERS_KEY_REUSED, PROBLEM_KEY_REUSED},
    [STOCK_SOLD_OUT] = {METRIC_ORDERS_SOLD_OUT, PROBLEM_SOLD_OUT},
    [STOCK_NOT_STARTED] = {METRIC_ORDERS_NOT_STARTED, PROBLEM_NOT_STARTED},
    [STOCK_ENDED] = {METRIC_ORDERS_ENDED, PROBLEM_ENDED},
    [STOCK_PAUSED] = {METRIC_ORDERS_PAUSED, PROBLEM_PAUSED},
    [STOCK_COUNTING] = {METRIC_ORDERS_UNAVAILABLE, PROBLEM_UNAVAILABLE},
    [STOCK_LIMIT] = {METRIC_ORDERS_LIMIT, PROBLEM_LIMIT},
    [STOCK_RATE_LIMITED] = {METRIC_ORDERS_RATE_LIMITED, PROBLEM_RATE_LIMITED},
    [STOCK_UNKNOWN_SKU] = {METRIC_ORDERS_UNKNOWN_SKU, PROBLEM_UNKNOWN_SKU},
    [STOCK_AGAIN] = {METRIC_ORDERS_UNAVAILABLE, PROBLEM_NONE},
    [STOCK_UNAVAILABLE] = {METRIC_ORDERS_UNAVAILABLE, PROBLEM_NONE},
    [STOCK_IN_DOUBT] = {METRIC_ORDERS_OUTCOME_UNKNOWN, PROBLEM_NONE},
};

void order_answer(struct request *request, enum problem refusal)
{
    struct answer *answer = &request->answer;
    struct stock_order *order = &request->order;
    enum problem problem = outcomes[order->outcome].problem;
    enum metrics_counter counter = outcomes[order->outcome].counter;
    assert(counter != METRIC_ORDERS_ACCEPTED || order->outcome == STOCK_ACCEPTED); /* has a row */
    metrics_count(counter);
    switch (order->outcome) {
    case STOCK_ACCEPTED:
        answer_accepted(answer, 201, ledger_status_name(LEDGER_RESERVED), order);
        answer->new_order_id = order->order_id;
        break;
    case STOCK_REPLAYED: /* 200, not 201: the client learns that it bought once */
        answer_accepted(answer, 200, order->status, order);
        break;
    case STOCK_NOT_STARTED:
        answer_not_started(answer, order);
        break;
    case STOCK_ENDED:
        answer_closed(answer, problem, "ends_at", order);
        break;
    case STOCK_COUNTING:
        answer_detail(answer, problem,
                      "The sale has a new limit and counts what its users have; nothing was done.");
        break;
    case STOCK_LIMIT:
        answer_limit(answer, order->history);
        break;
    case STOCK_RATE_LIMITED:
        answer_rate_limited(answer, order);
        break;
    case STOCK_IN_DOUBT: /* never reported as a failure: the ledger may have it */
        answer_unknown_outcome(answer, order->order_id);
        break;
    default:
        answer_problem(answer, problem == PROBLEM_NONE ? refusal : problem);
        break;
    }
    stock_order_clear(order);
    assert(answer->status != 0);
}

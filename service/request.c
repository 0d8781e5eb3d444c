/* One HTTP request on its way, and the text of its answer. */
#include "service/request.h"

#include <assert.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/decimal.h"
#include "service/metrics.h"

#define PROBLEM_ROW(name, status, code, title, detail, retry) {status, retry, code, title, detail},
static const struct {
    unsigned status;
    unsigned retry_after_s;
    const char *code;
    const char *title;
    const char *detail;
} problems[PROBLEM_COUNT] = {PROBLEMS(PROBLEM_ROW)};
#undef PROBLEM_ROW

bool request_move(struct request *request, enum request_state from, enum request_state to)
{
    static const bool allowed[REQUEST_STATES][REQUEST_STATES] = {
        [REQUEST_RECEIVING] = {[REQUEST_QUEUED] = true},
        [REQUEST_QUEUED] = {[REQUEST_TAKEN] = true, [REQUEST_GIVEN_UP] = true},
        [REQUEST_TAKEN] = {[REQUEST_QUEUED] = true, [REQUEST_DONE] = true, [REQUEST_TOLD] = true},
        [REQUEST_DONE] = {[REQUEST_QUEUED] = true},
    };
    assert(allowed[from][to]);
    int expected = (int)from;
    return atomic_compare_exchange_strong(&request->state, &expected, (int)to);
}

unsigned problem_status(enum problem problem)
{
    return problems[problem].status;
}

unsigned problem_retry_after(enum problem problem)
{
    return problems[problem].retry_after_s;
}

size_t problem_text(enum problem problem, const char *detail, const char *extra, char *out,
                    size_t size)
{
    const char *fixed = problems[problem].detail; /* which holds nothing to be escaped */
    json_t *text = detail ? json_string(detail) : NULL;
    char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
    const char *mark = quoted ? "" : "\"";
    int length =
        snprintf(out, size,
                 "{\"type\":\"urn:seckill:problem:%s\",\"title\":\"%s\",\"status\":%u,"
                 "\"detail\":%s%s%s,\"code\":\"%s\"%s}\n",
                 problems[problem].code, problems[problem].title, problems[problem].status, mark,
                 quoted   ? quoted
                 : detail ? ""
                          : fixed,
                 mark, problems[problem].code, extra);
    free(quoted);
    json_decref(text);
    assert(length > 0);
    return (size_t)length < size ? (size_t)length : size - 1;
}

void answer_problem(struct answer *answer, enum problem problem)
{
    answer_clear(answer);
    answer->problem = problem;
    answer->status = problems[problem].status;
}

static void answer_problem_text(struct answer *answer, enum problem problem, const char *detail,
                                const char *extra)
{
    answer_clear(answer);
    answer->problem = PROBLEM_NONE;
    answer->status = problems[problem].status;
    answer->retry_after_s = problems[problem].retry_after_s;
    answer->content_type = "application/problem+json";
    answer->text = answer->inline_text;
    answer->length = problem_text(problem, detail, extra, answer->inline_text, ANSWER_INLINE_MAX);
}

void answer_detail(struct answer *answer, enum problem problem, const char *detail)
{
    answer_problem_text(answer, problem, detail, "");
}

void answer_order_unknown(struct answer *answer, uint64_t order_id)
{
    char extra[64];
    snprintf(extra, sizeof extra, ",\"order_id\":\"%llu\"", (unsigned long long)order_id);
    answer_problem_text(answer, PROBLEM_OUTCOME_UNKNOWN, NULL, extra);
}

void answer_invalid_state(struct answer *answer, const char *status, const char *detail)
{
    char extra[64];
    snprintf(extra, sizeof extra, ",\"order_status\":\"%s\"", status);
    answer_problem_text(answer, PROBLEM_INVALID_STATE, detail, extra);
}

void answer_text(struct answer *answer, unsigned status, const char *content_type, char *text,
                 size_t length)
{
    answer_clear(answer);
    answer->problem = PROBLEM_NONE;
    answer->status = status;
    answer->content_type = content_type;
    answer->text = text;
    answer->length = length;
}

void answer_stream(struct answer *answer, unsigned status, const char *content_type)
{
    answer_clear(answer);
    answer->status = status;
    answer->content_type = content_type;
    answer->stream = true;
}

void answer_clear(struct answer *answer)
{
    if (answer->text && answer->text != answer->inline_text)
        free(answer->text);
    answer->text = NULL;
    answer->length = 0;
    answer->retry_after_s = 0;
    answer->limit = 0;
    answer->stream = false;
    answer->problem = PROBLEM_NONE;
}

/* Every answer to an accepted order is written this way, so it is written without printf. Skus,
 * user ids and times need no JSON escapes: their alphabet was checked when they came in. */
static char *put(char *at, const char *text)
{
    size_t length = strlen(text);
    memcpy(at, text, length);
    return at + length;
}

static char *put_allocations(char *at, const struct stock_order *order)
{
    at = put(at, ",\"allocations\":[");
    for (size_t i = 0; i < order->allocation_count; i++) {
        at = put(at, i == 0 ? "{\"segment\":" : ",{\"segment\":");
        at = decimal_put(at, order->allocations[i].segment);
        at = put(at, ",\"qty\":");
        at = decimal_put(at, order->allocations[i].qty);
        at = put(at, "}");
    }
    return put(at, "]");
}

static void answer_accepted(struct request *request, unsigned status)
{
    enum { FIXED_MAX = 480, ALLOCATION_MAX = 48 };
    const struct stock_order *order = &request->order;
    struct answer *answer = &request->answer;
    answer_clear(answer);
    answer->status = status;
    answer->content_type = "application/json";
    answer->text = answer->inline_text;
    size_t size = FIXED_MAX + order->allocation_count * ALLOCATION_MAX;
    if (size > ANSWER_INLINE_MAX && !(answer->text = malloc(size)))
        abort();
    char *at = put(answer->text, "{\"order_id\":\"");
    at = decimal_put(at, order->order_id);
    at = put(at, "\",\"sku\":\"");
    at = put(at, order->sku);
    at = put(at, "\",\"user_id\":\"");
    at = put(at, order->user_id);
    at = put(at, "\",\"qty\":");
    at = decimal_put(at, order->qty);
    at = put(at, ",\"segment\":");
    at = decimal_put(at, order->segment);
    if (order->allocation_count > 0)
        at = put_allocations(at, order);
    at = put(at, ",\"status\":\"reserved\",\"created_at\":\"");
    at = put(at, order->created_at);
    if (order->expires_at[0] != '\0') {
        at = put(at, "\",\"expires_at\":\"");
        at = put(at, order->expires_at);
    }
    at = put(at, "\"}\n");
    answer->length = (size_t)(at - answer->text);
    assert(answer->length <= size);
}

/* With when the sale opens or ended. */
static void answer_closed(struct answer *answer, enum problem problem, const char *member,
                          const struct stock_order *order)
{
    char extra[64], time[LEDGER_TIME_SIZE];
    ledger_time_format(order->at_ms, time);
    snprintf(extra, sizeof extra, ",\"%s\":\"%s\"", member, time);
    answer_problem_text(answer, problem, NULL, extra);
}

static void answer_not_started(struct answer *answer, const struct stock_order *order)
{
    int64_t wait_s = (order->at_ms - order->created_ms + 999) / 1000;
    answer_closed(answer, PROBLEM_NOT_STARTED, "starts_at", order);
    answer->retry_after_s = wait_s < 1                   ? 1
                            : wait_s > RETRY_AFTER_S_MAX ? RETRY_AFTER_S_MAX
                                                         : (unsigned)wait_s;
}

/* With the orders that the user has. */
static void answer_limit(struct answer *answer, const struct stock_history *history)
{
    char extra[64 + LEDGER_QUOTA_ORDERS_MAX * 24];
    char *at = put(extra, ",\"limit\":");
    at = decimal_put(at, history->limit);
    at = put(at, ",\"orders\":[");
    for (size_t i = 0; i < history->order_count; i++) {
        at = put(at, i == 0 ? "\"" : ",\"");
        at = decimal_put(at, history->order_ids[i]);
        at = put(at, "\"");
    }
    at = put(at, "]");
    *at = '\0';
    answer_problem_text(answer, PROBLEM_LIMIT, NULL, extra);
}

static unsigned whole_seconds(int64_t ms)
{
    return ms > 0 ? (unsigned)((ms + 999) / 1000) : 1;
}

/* Those who are told to come back are told different times, up to half as long again, so that they
 * do not come together. */
static void answer_limited(struct request *request)
{
    const struct stock_rate_status *over = &request->order.rate_status;
    struct answer *answer = &request->answer;
    unsigned retry_s = whole_seconds(over->retry_ms);
    uint64_t spread = request->order.order_id * UINT64_C(0x9e3779b97f4a7c15) >> 33;
    answer_detail(answer, PROBLEM_RATE_LIMITED, NULL);
    answer->retry_after_s = retry_s + (unsigned)(spread % (retry_s / 2 + 2));
    answer->limit = over->burst;
    answer->reset_s = whole_seconds(over->reset_ms);
}

void answer_order(struct request *request)
{
    struct answer *answer = &request->answer;
    switch (request->order.outcome) {
    case STOCK_ACCEPTED:
        metrics_count(METRIC_ORDERS_ACCEPTED);
        answer_accepted(request, 201);
        break;
    case STOCK_REPLAYED:
        metrics_count(METRIC_ORDERS_REPLAYED);
        answer_accepted(request, 200);
        break;
    case STOCK_KEY_REUSED:
        metrics_count(METRIC_ORDERS_KEY_REUSED);
        answer_problem(answer, PROBLEM_KEY_REUSED);
        break;
    case STOCK_SOLD_OUT:
        metrics_count(METRIC_ORDERS_SOLD_OUT);
        answer_problem(answer, PROBLEM_SOLD_OUT);
        break;
    case STOCK_NOT_STARTED:
        metrics_count(METRIC_ORDERS_NOT_STARTED);
        answer_not_started(answer, &request->order);
        break;
    case STOCK_ENDED:
        metrics_count(METRIC_ORDERS_ENDED);
        answer_closed(answer, PROBLEM_ENDED, "ends_at", &request->order);
        break;
    case STOCK_PAUSED:
        metrics_count(METRIC_ORDERS_PAUSED);
        answer_problem(answer, PROBLEM_PAUSED);
        break;
    case STOCK_LIMIT:
        metrics_count(METRIC_ORDERS_LIMIT);
        answer_limit(answer, request->order.history);
        break;
    case STOCK_UNKNOWN_SKU:
        metrics_count(METRIC_ORDERS_UNKNOWN_SKU);
        answer_problem(answer, PROBLEM_UNKNOWN_SKU);
        break;
    case STOCK_RATE_LIMITED:
        metrics_count(METRIC_ORDERS_RATE_LIMITED);
        answer_limited(request);
        break;
    case STOCK_IN_DOUBT:
        metrics_count(METRIC_ORDERS_OUTCOME_UNKNOWN);
        answer_order_unknown(answer, request->order.order_id);
        break;
    default:
        metrics_count(METRIC_ORDERS_UNAVAILABLE);
        answer_problem(answer, PROBLEM_UNAVAILABLE);
        break;
    }
    stock_order_clear(&request->order);
}

/* GET /user/{user_id}/orders and GET /admin/orders: who bought, page by page. */
#include "service/calls/list.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "base/identifier.h"
#include "service/request/faults.h"
#include "service/request/order_answer.h"
#include "service/request/unescape.h"
#include "service/request/order_id.h"

enum {
    LIMIT = 100, /* orders on a page unless the client says otherwise */
    LIMIT_MAX = 1000,
    FETCH_MS_MAX = 200, /* how long a page may look for orders that the filter lets through */
};

enum { PARAMETERS = 4 }; /* of a query */

/* ---- what is asked for ---- */

static bool read_sku(struct request_call *asked, const char *value)
{
    return identifier_copy(value, strlen(value), asked->filter.sku);
}

static bool read_status(struct request_call *asked, const char *value)
{
    static const char *const names[] = {"reserved", "paid", "cancelled", "expired"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++)
        if (strcmp(names[i], value) == 0) {
            strcpy(asked->filter.status, value);
            return true;
        }
    return false;
}

static bool read_after(struct request_call *asked, const char *value)
{
    return order_id_parse(value, &asked->after);
}

static bool read_limit(struct request_call *asked, const char *value)
{
    size_t length = strlen(value);
    bool number = length > 0 && length <= 4 && strspn(value, "0123456789") == length;
    long limit = number ? strtol(value, NULL, 10) : 0;
    asked->limit = (uint32_t)limit;
    return limit >= 1 && limit <= LIMIT_MAX;
}

static const struct {
    const char *name;
    bool (*read)(struct request_call *asked, const char *value);
    const char *detail;
} parameters[PARAMETERS] = {
    {"sku", read_sku, "sku must be 1 to 64 characters out of A-Z a-z 0-9 . _ : -"},
    {"status", read_status, "status must be reserved, paid, cancelled or expired."},
    {"after", read_after, "after must be an order id, as next gives it."},
    {"limit", read_limit, "limit must be a whole number from 1 to 1000."},
};

/* Reads one parameter. NULL, or what is wrong with it. */
static const char *read_one(struct request_call *asked, const struct call_parameter *given,
                            bool *seen)
{
    for (size_t i = 0; i < PARAMETERS; i++) {
        if (strcmp(parameters[i].name, given->name) != 0)
            continue;
        if (seen[i])
            return "A query parameter comes twice.";
        seen[i] = true;
        return parameters[i].read(asked, given->value) ? NULL : parameters[i].detail;
    }
    return "There is a query parameter other than sku, status, after and limit.";
}

/* Fills in filter, after and limit. NULL, or what is wrong with the query. */
static const char *read_query(struct request_call *asked, const struct call *call)
{
    bool seen[PARAMETERS] = {false};
    const char *detail = NULL;
    asked->filter = (struct ledger_filter){.sku = ""};
    asked->after = 0;
    asked->limit = LIMIT;
    if (call->parameter_count > PARAMETERS_MAX)
        return "There are too many query parameters.";
    for (size_t i = 0; i < call->parameter_count && !detail; i++)
        detail = read_one(asked, &call->parameters[i], seen);
    return detail;
}

/* ---- one page from the ledger ---- */

/* One call looks at a bounded number of rows. A user's orders have an index of their own. */
static enum ledger_result read_rows(struct ledger *ledger, const struct request_call *asked,
                                    struct ledger_listed *rows, size_t max, size_t *count_out,
                                    uint64_t *next_out)
{
    const struct ledger_filter *filter = &asked->filter;
    return filter->user_id[0] != '\0'
               ? ledger_user_orders(ledger, filter, *next_out, max, rows, count_out, next_out)
               : ledger_orders_scan(ledger, filter, *next_out, max, rows, count_out, next_out);
}

/* Reads the next page, of at most asked->limit orders; asked->after is then where the following page
 * begins, 0 when there is none. Of the rows that one call looks at the filter may let few through,
 * so it is repeated until there are as many, all rows were seen, or the time is over. The caller
 * frees the orders; NULL when the ledger failed. */
static struct ledger_listed *fetch(struct ledger *ledger, struct request_call *asked,
                                   size_t *count_out)
{
    int64_t until_ns = clock_now_ns() + FETCH_MS_MAX * CLOCK_NS_PER_MS;
    enum ledger_result result = LEDGER_OK;
    struct ledger_listed *rows = calloc(asked->limit, sizeof *rows);
    *count_out = 0;
    if (!rows)
        abort();
    do {
        size_t found = 0;
        result = read_rows(ledger, asked, rows + *count_out, asked->limit - *count_out, &found,
                           &asked->after);
        *count_out += found;
        assert(*count_out <= asked->limit);
    } while (result == LEDGER_OK && *count_out < asked->limit && asked->after != 0 &&
             clock_now_ns() < until_ns);
    if (result == LEDGER_OK)
        return rows;
    free(rows);
    return NULL;
}

/* ---- pages as JSON ---- */

static struct order_text text_of(const struct ledger_listed *listed)
{
    return (struct order_text){
        .order_id = listed->order_id,
        .sku = listed->sku,
        .round = listed->round,
        .user_id = listed->user_id,
        .qty = listed->qty,
        .segment = listed->segment,
        .status = listed->status,
        .created_at = listed->created_at,
        .expires_at = listed->expires_at,
    };
}

static void answer_page(struct answer *answer, const struct ledger_listed *orders, size_t count,
                        uint64_t next)
{
    enum { FRAME_MAX = 64 }; /* all but the orders */
    size_t size = FRAME_MAX + count * (ORDER_TEXT_MAX + 1);
    char *text = answer_begin(answer, 200, "application/json", size);
    char *at = stpcpy(text, "{\"orders\":[");
    for (size_t i = 0; i < count; i++) {
        struct order_text order = text_of(&orders[i]);
        at = order_put(i == 0 ? at : stpcpy(at, ","), &order);
    }
    at = stpcpy(at, "]");
    if (next != 0) {
        at = decimal_put(stpcpy(at, ",\"next\":\""), next);
        at = stpcpy(at, "\"");
    }
    at = stpcpy(at, "}\n");
    assert((size_t)(at - text) <= size);
    answer_end(answer, (size_t)(at - text));
}

/* Clients that take no answers may not fill the memory with pages; nor may those of the shop, who
 * list the orders of one user, keep operators from theirs. */
static void page(struct call_worker *worker, struct request *request)
{
    size_t count = 0;
    bool shop = request->call.filter.user_id[0] != '\0';
    if (answers_bytes() > (shop ? ANSWERS_SHOP_MAX : ANSWERS_BYTES_MAX)) {
        answer_detail(&request->answer, PROBLEM_OVERLOADED,
                      "Too many long answers wait for their clients; try again later.");
        return;
    }
    struct ledger_listed *orders = fetch(stock_ledger(worker->stock), &request->call, &count);
    if (orders)
        answer_page(&request->answer, orders, count, request->call.after);
    else
        answer_problem(&request->answer, faults_problem(worker->stock));
    free(orders);
}

static void work_page(struct call_worker *worker, struct request **requests, size_t count)
{
    for (size_t i = 0; i < count; i++)
        page(worker, requests[i]);
}

/* The {user_id} of the path; a slash in it is encoded. */
static bool read_user(struct request_call *asked, const char *tail)
{
    char user_id[USER_ID_SIZE];
    size_t length = strcspn(tail, "/");
    asked->filter.user_id[0] = '\0';
    if (length >= sizeof user_id)
        return false;
    unescape_slashes(tail, length, user_id);
    return user_id_copy(user_id, length, asked->filter.user_id);
}

enum call_start call_list_user(struct service *service, struct request *request,
                               const struct call *call)
{
    (void)service;
    struct request_call *asked = &request->call;
    const char *detail = read_query(asked, call);
    if (!detail && !read_user(asked, call->tail))
        detail = "The user_id in the path must be " USER_ID_FORM ", and percent-encoded.";
    return detail ? call_refuse(request, detail) : call_send(request, work_page, false);
}

enum call_start call_list_all(struct service *service, struct request *request,
                              const struct call *call)
{
    (void)service;
    const char *detail = read_query(&request->call, call);
    return detail ? call_refuse(request, detail) : call_send(request, work_page, false);
}

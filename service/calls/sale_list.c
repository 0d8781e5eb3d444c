/* GET /admin/sales: all sales, page by page. */
#include "service/calls/sale_list.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/identifier.h"
#include "service/calls/sale_settings.h"
#include "service/request/faults.h"

enum {
    LIMIT = 100, /* sales on a page unless the client says otherwise */
    LIMIT_MAX = 1000,
};

static bool read_limit(struct request_call *asked, const char *value)
{
    size_t length = strlen(value);
    bool number = length > 0 && length <= 4 && strspn(value, "0123456789") == length;
    long limit = number ? strtol(value, NULL, 10) : 0;
    asked->limit = (uint32_t)limit;
    return limit >= 1 && limit <= LIMIT_MAX;
}

/* Fills in `sku`, the one to go on after, and `limit`. NULL, or what is wrong with the query. */
static const char *read_query(struct request_call *asked, const struct call *call)
{
    bool after = false, limit = false;
    asked->sku[0] = '\0';
    asked->limit = LIMIT;
    if (call->parameter_count > PARAMETERS_MAX)
        return "There are too many query parameters.";
    for (size_t i = 0; i < call->parameter_count; i++) {
        const struct call_parameter *given = &call->parameters[i];
        bool is_after = strcmp(given->name, "after") == 0;
        if (!is_after && strcmp(given->name, "limit") != 0)
            return "There is a query parameter other than after and limit.";
        if (is_after ? after : limit)
            return "A query parameter comes twice.";
        *(is_after ? &after : &limit) = true;
        if (is_after && !identifier_copy(given->value, strlen(given->value), asked->sku))
            return "after must be a sku, as next gives it.";
        if (!is_after && !read_limit(asked, given->value))
            return "limit must be a whole number from 1 to 1000.";
    }
    return NULL;
}

static json_t *page_json(const struct ledger_sale *sales, size_t count, bool full)
{
    json_t *list = json_array();
    if (!list)
        abort();
    for (size_t i = 0; i < count; i++)
        json_array_append_new(list, sale_json(&sales[i]));
    json_t *page = json_pack("{s:o}", "sales", list);
    if (full)
        json_object_set_new(page, "next", json_string(sales[count - 1].sku));
    return page;
}

static void list(struct call_worker *worker, struct request *request)
{
    const struct request_call *asked = &request->call;
    size_t count = 0;
    struct ledger_sale *sales = calloc(asked->limit, sizeof *sales);
    if (!sales)
        abort();
    if (ledger_sale_list(stock_ledger(worker->stock), asked->sku, asked->limit, sales, &count) ==
        LEDGER_OK)
        answer_json(&request->answer, 200, page_json(sales, count, count == asked->limit));
    else
        answer_problem(&request->answer, faults_problem(worker->stock));
    free(sales);
}

static void work_list(struct call_worker *worker, struct request **requests, size_t count)
{
    for (size_t i = 0; i < count; i++)
        list(worker, requests[i]);
}

enum call_start call_sale_list(struct service *service, struct request *request,
                               const struct call *call)
{
    (void)service;
    const char *detail = read_query(&request->call, call);
    return detail ? call_refuse(request, detail) : call_send(request, work_list, false);
}

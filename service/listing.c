/* What a listing of orders is asked for: the parameters behind the question mark. */
#include "service/listing.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "service/snowflake.h"
#include "base/identifier.h"

enum { FETCH_MS_MAX = 200 }; /* how long a page may look for orders that the filter lets through */

static bool read_sku(struct request *request, const char *value)
{
    return identifier_copy(value, strlen(value), request->filter.sku);
}

static bool read_status(struct request *request, const char *value)
{
    static const char *const words[] = {"reserved", "paid", "cancelled", "expired"};
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        if (strcmp(words[i], value) == 0) {
            strcpy(request->filter.status, value);
            return true;
        }
    return false;
}

static bool read_after(struct request *request, const char *value)
{
    return snowflake_parse(value, &request->after);
}

static bool read_limit(struct request *request, const char *value)
{
    size_t length = strlen(value);
    bool number = length > 0 && length <= 4 && strspn(value, "0123456789") == length;
    long limit = number ? strtol(value, NULL, 10) : 0;
    request->limit = (uint32_t)limit;
    return limit >= 1 && limit <= LISTING_LIMIT_MAX;
}

static const struct {
    const char *name;
    bool (*read)(struct request *request, const char *value);
    const char *detail;
} parameters[] = {
    {"sku", read_sku, "sku must be 1 to 64 characters out of A-Z a-z 0-9 . _ : -"},
    {"status", read_status, "status must be reserved, paid, cancelled or expired."},
    {"after", read_after, "after must be an order id, as next gives it."},
    {"limit", read_limit, "limit must be a whole number from 1 to 1000."},
};

/* Reads one parameter. NULL, or what is wrong with it. */
static const char *read_one(struct request *request, const struct call_parameter *given,
                            enum listing_kind kind, bool *seen)
{
    for (size_t i = 0; i < (size_t)kind; i++) {
        if (strcmp(parameters[i].name, given->name) != 0)
            continue;
        if (seen[i])
            return "A query parameter comes twice.";
        seen[i] = true;
        return parameters[i].read(request, given->value) ? NULL : parameters[i].detail;
    }
    return kind == LISTING_PAGE ? "There is a query parameter other than sku, status, after and "
                                  "limit."
                                : "There is a query parameter other than sku and status.";
}

bool listing_read(struct request *request, const struct call *call, enum listing_kind kind)
{
    bool seen[LISTING_PAGE] = {false};
    const char *detail = NULL;
    request->filter = (struct ledger_filter){.sku = ""};
    request->after = 0;
    request->limit = LISTING_LIMIT;
    if (call->parameter_count > PARAMETERS_MAX)
        detail = "There are too many query parameters.";
    for (size_t i = 0; i < call->parameter_count && !detail; i++)
        detail = read_one(request, &call->parameters[i], kind, seen);
    if (detail)
        answer_detail(&request->answer, PROBLEM_INVALID_REQUEST, detail);
    return !detail;
}

/* Each call of the source looks at a bounded number of rows, of which the filter may let few
 * through: it is called until the page is full, all were seen, or the time is over. */
bool listing_fetch(struct desk *desk, struct request *request, listing_source *source,
                   struct ledger_listed *orders_out, size_t *count_out)
{
    enum ledger_result result = LEDGER_OK;
    int64_t until_ns = clock_now_ns() + FETCH_MS_MAX * 1000000;
    size_t found = 0;
    *count_out = 0;
    do {
        result =
            source(stock_ledger(desk->stock), &request->filter, request->after,
                   request->limit - *count_out, orders_out + *count_out, &found, &request->after);
        *count_out += found;
    } while (result == LEDGER_OK && *count_out < request->limit && request->after != 0 &&
             clock_now_ns() < until_ns);
    return result == LEDGER_OK;
}

/* Fuzzes what paths and queries name: cursors and filters of listings, order ids, skus, users.
 * The first line is the tail of a path; the others are NAME=VALUE.
 *
 * What goes on to a worker is in its bounds and spelt in one way; all else is refused with a stable
 * code. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/identifier.h"
#include "service/request/order_id.h"
#include "test/fuzz/fuzz.h"
#include "test/fuzz/fuzz_service.h"

static bool is_name(const char *text)
{
    return identifier_valid(text, strlen(text));
}

static bool is_user(const char *text)
{
    return user_id_valid(text, strlen(text));
}

static void check_filter(const struct request *request)
{
    static const char *const statuses[] = {"", "reserved", "paid", "cancelled", "expired"};
    const struct ledger_filter *filter = &request->call.filter;
    bool known = false;
    for (size_t i = 0; i < sizeof statuses / sizeof *statuses; i++)
        known |= strcmp(filter->status, statuses[i]) == 0;
    assert(known && (filter->sku[0] == '\0' || is_name(filter->sku)));
    assert(filter->user_id[0] == '\0' || is_user(filter->user_id));
    assert(request->call.limit >= 1 && request->call.limit <= 1000);
}

static void check_user(const struct request *request)
{
    check_filter(request);
    assert(is_user(request->call.filter.user_id));
}

static void check_sales(const struct request *request)
{
    assert(request->call.sku[0] == '\0' || is_name(request->call.sku));
    assert(request->call.limit >= 1 && request->call.limit <= 1000);
}

static void check_sku(const struct request *request)
{
    assert(is_name(request->call.sku));
}

static void check_payments(const struct request *request)
{
    const struct request_call *asked = &request->call;
    assert(asked->payments.state < LEDGER_PAYMENT_STATES && asked->limit >= 1);
    assert(asked->payments.sku[0] == '\0' || is_name(asked->payments.sku));
    assert((asked->place.order_id == 0) == (asked->place.ref[0] == '\0') ||
           asked->place.order_id == 0);
}

static void check_id(const struct request *request)
{
    assert(request->call.order_id >> 63 == 0);
}

static const struct {
    call_handler *start;
    void (*check)(const struct request *request);
    bool takes_path;
} calls[] = {
    {call_list_all, check_filter, false}, {call_list_user, check_user, true},
    {call_sale_list, check_sales, false}, {call_order_get, check_id, true},
    {call_state_pay, check_id, true},     {call_state_cancel, check_id, true},
    {call_stock_get, check_sku, true},    {call_stock_get_exact, check_sku, true},
    {call_sale_retire, check_sku, true},  {call_list_payments, check_payments, false},
};

static void clear(struct request *request)
{
    answer_clear(&request->answer);
}

static void check_call(size_t i, const struct call *call)
{
    static struct request request; /* as in the daemon, one has the memory of those before */
    enum call_start next = calls[i].start(&request, call);
    assert(next == START_ANSWERED || next == START_TO_CALL_WORKER);
    if (next == START_ANSWERED) {
        fuzz_check_refusal(&request);
    } else {
        assert(request.call.work);
        calls[i].check(&request);
    }
    clear(&request);
}

/* One order has one spelling. */
static void check_spelling(const char *text)
{
    uint64_t id = 1;
    char spelt[ORDER_ID_TEXT_SIZE];
    if (!order_id_parse(text, &id)) {
        assert(id == 0);
        return;
    }
    *decimal_put(spelt, id) = '\0';
    assert(strcmp(spelt, text) == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    enum { LINES_MAX = 16 };
    struct fuzz_input input = {data, size};
    char *tail = fuzz_text(&input, '\n', NULL), *lines[LINES_MAX];
    size_t count = 0;
    struct call call = {.service = fuzz_service(), .tail = tail, .body = "", .now_ns = 1};
    check_spelling(tail);
    while (input.left > 0 && count < LINES_MAX) {
        char *line = lines[count++] = fuzz_text(&input, '\n', NULL);
        char *value = strchr(line, '=');
        if (value)
            *value++ = '\0';
        if (call.parameter_count < PARAMETERS_MAX)
            call.parameters[call.parameter_count] =
                (struct call_parameter){line, value ? value : ""};
        call.parameter_count += call.parameter_count <= PARAMETERS_MAX;
        check_spelling(value ? value : "");
    }
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++)
        check_call(i, &call);
    while (count > 0)
        free(lines[--count]);
    free(tail);
    return 0;
}

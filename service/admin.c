/* What the admin calls share: reading their bodies, and telling why nothing was done. */
#include "service/admin.h"

#include "base/identifier.h"

json_t *admin_read_object(struct request *request, const struct call *call)
{
    json_error_t error;
    const char *detail = NULL;
    json_t *object = json_loadb(call->body, call->body_length, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        detail = json_error_code(&error) == json_error_duplicate_key
                     ? "A field comes twice."
                     : "The body is not valid JSON.";
    else if (!json_is_object(object))
        detail = "The body must be a JSON object.";
    if (!detail)
        return object;
    answer_detail(&request->answer, PROBLEM_INVALID_REQUEST, detail);
    json_decref(object);
    return NULL;
}

json_t *admin_read_sale(struct request *request, const struct call *call)
{
    json_t *object = admin_read_object(request, call);
    const json_t *sku = json_object_get(object, "sku");
    if (!object ||
        (json_is_string(sku) &&
         identifier_copy(json_string_value(sku), json_string_length(sku), request->order.sku)))
        return object;
    answer_detail(&request->answer, PROBLEM_INVALID_REQUEST,
                  "sku must be a string of 1 to 64 characters out of A-Z a-z 0-9 . _ : -");
    json_decref(object);
    return NULL;
}

bool admin_read_number(const json_t *object, const char *name, json_int_t max, uint32_t *out)
{
    const json_t *value = json_object_get(object, name);
    if (!json_is_integer(value) || json_integer_value(value) < 1 || json_integer_value(value) > max)
        return false;
    *out = (uint32_t)json_integer_value(value);
    return true;
}

void admin_answer_failure(struct request *request, enum stock_admin_result result)
{
    switch (result) {
    case STOCK_ADMIN_NO_SALE:
        answer_problem(&request->answer, PROBLEM_UNKNOWN_SKU);
        break;
    case STOCK_ADMIN_BUSY:
        answer_detail(&request->answer, PROBLEM_UNAVAILABLE,
                      "The sale is being changed by others all the time; nothing was done.");
        break;
    case STOCK_ADMIN_FULL:
        answer_detail(&request->answer, PROBLEM_INVALID_REQUEST, "There are 10000 sales already.");
        break;
    case STOCK_ADMIN_WINDOW:
        answer_detail(&request->answer, PROBLEM_INVALID_REQUEST,
                      "ends_at must be later than starts_at.");
        break;
    case STOCK_ADMIN_IN_DOUBT:
        answer_problem(&request->answer, PROBLEM_OUTCOME_UNKNOWN);
        break;
    default:
        answer_problem(&request->answer, PROBLEM_UNAVAILABLE);
        break;
    }
}

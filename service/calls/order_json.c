/* An order as its answers show it. */
#include "service/calls/order_json.h"

#include <jansson.h>

#include "service/order_id.h"

json_t *order_json(const struct ledger_record *record)
{
    bool several = record->allocation_count > 0;
    char id[ORDER_ID_TEXT_SIZE];
    order_id_format(record->order_id, id);
    json_t *order =
        json_pack("{s:s, s:s, s:s, s:i, s:i, s:s, s:s}", "order_id", id, "sku", record->sku,
                  "user_id", record->user_id, "qty", (int)record->qty, "segment",
                  several ? (int)record->allocations[0].segment : (int)record->segment, "status",
                  record->status, "created_at", record->created_at);
    if (record->expires_at[0] != '\0')
        json_object_set_new(order, "expires_at", json_string(record->expires_at));
    if (!several)
        return order;
    json_t *allocations = json_array();
    for (size_t i = 0; i < record->allocation_count; i++)
        json_array_append_new(allocations, json_pack("{s:i, s:i}", "segment",
                                                     (int)record->allocations[i].segment, "qty",
                                                     (int)record->allocations[i].qty));
    json_object_set_new(order, "allocations", allocations);
    return order;
}

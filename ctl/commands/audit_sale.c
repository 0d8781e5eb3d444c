/* Adds up one sale in an audit, and compares its orders with its segments. */
#include "ctl/commands/audit_sale.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/answer.h"

void audit_sale_begin(struct audit_sale *sale_out, const char *sku, size_t pod, json_t *head)
{
    *sale_out = (struct audit_sale){
        .sku = sku, .pod = pod, .head = head, .round = answer_integer(head, "round")};
}

void audit_sale_free(struct audit_sale *sale)
{
    json_decref(sale->head);
    *sale = (struct audit_sale){.head = NULL};
}

static size_t segment_count(const struct audit_sale *sale)
{
    size_t count = json_array_size(json_object_get(sale->head, "segments"));
    return count < AUDIT_SEGMENTS_MAX ? count : AUDIT_SEGMENTS_MAX;
}

static const json_t *segment_of(const struct audit_sale *sale, size_t place)
{
    return json_array_get(json_object_get(sale->head, "segments"), place);
}

static uint64_t count_of(const json_t *object, const char *name)
{
    return (uint64_t)answer_integer(object, name);
}

static uint64_t long_count_of(const json_t *object, const char *name)
{
    return strtoull(answer_text(object, name), NULL, 10);
}

/* ---- adding up ---- */

void audit_sale_add_users(struct audit_sale *sale, const json_t *page)
{
    const json_t *users = json_object_get(page, "users");
    sale->user_units += count_of(users, "units");
    sale->user_hash_sum += long_count_of(users, "weighed");
    sale->users_over_limit += count_of(users, "above");
}

void audit_sale_add_orders(struct audit_sale *sale, const json_t *sums)
{
    const json_t *states = json_object_get(sums, "states");
    sale->round_changed = sale->round_changed || answer_integer(sums, "round") != sale->round;
    sale->reserved += count_of(states, "reserved");
    sale->paid += count_of(states, "paid");
    sale->cancelled += count_of(states, "cancelled");
    sale->expired += count_of(states, "expired");
    sale->units += count_of(sums, "units");
    sale->hash_sum += long_count_of(sums, "weighed");
    sale->unkeyed += count_of(sums, "unkeyed");
    sale->without_expiry += count_of(sums, "unlisted");
}

static bool differs(const json_t *one, const json_t *other, const char *name)
{
    const json_t *a = json_object_get(one, name), *b = json_object_get(other, name);
    return a != b && !json_equal(a, b);
}

bool audit_sale_moved(const json_t *before, const json_t *after)
{
    const json_t *old = json_object_get(before, "segments");
    const json_t *new = json_object_get(after, "segments");
    bool moved = differs(before, after, "round") || differs(before, after, "total") ||
                 differs(before, after, "per_user_limit") || differs(before, after, "counting") ||
                 json_array_size(old) != json_array_size(new);
    for (size_t i = 0; i < json_array_size(old) && !moved; i++) {
        const json_t *one = json_array_get(old, i), *other = json_array_get(new, i);
        moved = differs(one, other, "fence") || differs(one, other, "sold");
    }
    return moved;
}

/* ---- comparing ---- */

__attribute__((format(printf, 3, 4))) static void tell(const struct audit_sale *sale, json_t *list,
                                                       const char *format, ...)
{
    va_list args;
    va_start(args, format);
    json_t *text = json_vsprintf(format, args);
    va_end(args);
    json_array_append_new(list, json_sprintf("%s: %s", sale->sku, json_string_value(text)));
    json_decref(text);
}

/* A segment that is not settled at the ledger's fence is one that the service itself recovers
 * before it sells from it; only another number of units is a difference. */
static void compare_redis(const struct audit_sale *sale, const json_t *segment, json_t *differences,
                          json_t *awaiting)
{
    long long number = answer_integer(segment, "segment");
    const char *state = answer_text(segment, "state");
    if (strcmp(state, "mismatch") == 0)
        tell(sale, differences, "segment %lld: Redis has %lld left, the ledger %lld", number,
             (long long)answer_integer(json_object_get(segment, "redis"), "available"),
             (long long)(answer_integer(segment, "capacity") - answer_integer(segment, "sold")));
    else if (strcmp(state, "ok") != 0)
        tell(sale, awaiting, "segment %lld: %s in Redis", number, state);
}

static void compare_segment(const struct audit_sale *sale, size_t place, json_t *differences,
                            json_t *awaiting)
{
    const json_t *segment = segment_of(sale, place);
    long long number = answer_integer(segment, "segment"), sold = answer_integer(segment, "sold");
    long long capacity = answer_integer(segment, "capacity");
    if (number != (long long)place)
        tell(sale, differences, "segment %zu is missing", place);
    if (sold > capacity)
        tell(sale, differences, "segment %lld: oversold, %lld of %lld", number, sold, capacity);
    compare_redis(sale, segment, differences, awaiting);
}

/* While a sale is being counted for a new limit, the count is not complete. */
static void compare_users(const struct audit_sale *sale, json_t *differences)
{
    if (!json_is_integer(json_object_get(sale->head, "per_user_limit")) ||
        json_is_true(json_object_get(sale->head, "counting")))
        return;
    if (sale->user_units != sale->units)
        tell(sale, differences, "%" PRIu64 " units are counted for users, %" PRIu64 " in orders",
             sale->user_units, sale->units);
    else if (sale->user_hash_sum != sale->hash_sum)
        tell(sale, differences,
             "the users whose units are counted are not the users of the orders");
    if (sale->users_over_limit > 0)
        tell(sale, differences, "%" PRIu64 " users have more than their limit",
             sale->users_over_limit);
}

static void compare_faults(const struct audit_sale *sale, json_t *differences)
{
    if (sale->unkeyed > 0)
        tell(sale, differences, "%" PRIu64 " orders whose idempotency key does not lead to them",
             sale->unkeyed);
    if (sale->without_expiry > 0)
        tell(sale, differences, "%" PRIu64 " reserved orders that would never expire",
             sale->without_expiry);
}

void audit_sale_compare(const struct audit_sale *sale, json_t *differences, json_t *awaiting)
{
    long long total = answer_integer(sale->head, "total"), capacity = 0;
    long long sold = answer_integer(sale->head, "sold");
    long long segments = answer_integer(sale->head, "segment_count");
    for (size_t i = 0; i < segment_count(sale); i++) {
        compare_segment(sale, i, differences, awaiting);
        capacity += answer_integer(segment_of(sale, i), "capacity");
    }
    if ((long long)segment_count(sale) != segments)
        tell(sale, differences, "%lld segments in the sale, %zu rows", segments,
             segment_count(sale));
    if (capacity != total)
        tell(sale, differences, "%lld units in all, %lld in its segments", total, capacity);
    if ((uint64_t)sold != sale->units)
        tell(sale, differences, "%lld sold, %" PRIu64 " in orders", sold, sale->units);
    compare_users(sale, differences);
    compare_faults(sale, differences);
}

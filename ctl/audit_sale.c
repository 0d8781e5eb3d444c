/* One sale in an audit: what its orders hold beside what its segments say is sold. */
#include "ctl/audit_sale.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/answer.h"

enum { TEXT_SIZE = 256 };

void audit_sale_begin(struct audit_sale *sale_out, const char *sku, json_t *stock)
{
    *sale_out =
        (struct audit_sale){.sku = sku, .stock = stock, .round = answer_integer(stock, "round")};
}

void audit_sale_free(struct audit_sale *sale)
{
    json_decref(sale->stock);
    free(sale->several);
    *sale = (struct audit_sale){.stock = NULL};
}

static size_t segment_count(const struct audit_sale *sale)
{
    size_t count = json_array_size(json_object_get(sale->stock, "segments"));
    return count < AUDIT_SEGMENTS_MAX ? count : AUDIT_SEGMENTS_MAX;
}

static void count_units(struct audit_sale *sale, uint32_t segment, uint64_t units)
{
    if (segment < segment_count(sale))
        sale->ordered[segment] += units;
    else
        sale->outside += units;
}

static void note_several(struct audit_sale *sale, const struct audit_order *order)
{
    if (sale->several_count == sale->several_size) {
        sale->several_size = sale->several_size ? sale->several_size * 2 : 1024;
        sale->several = realloc(sale->several, sale->several_size * sizeof *sale->several);
        if (!sale->several)
            abort();
    }
    sale->several[sale->several_count++] = *order;
}

void audit_sale_add(struct audit_sale *sale, const struct audit_order *order, int64_t round,
                    const char *status)
{
    if (round != sale->round)
        return;
    bool paid = strcmp(status, "paid") == 0, reserved = strcmp(status, "reserved") == 0;
    sale->paid += paid;
    sale->reserved += reserved;
    sale->cancelled += strcmp(status, "cancelled") == 0;
    sale->expired += strcmp(status, "expired") == 0;
    if (!paid && !reserved)
        return;
    sale->orders++;
    sale->units += order->qty;
    count_units(sale, order->segment, order->qty);
    if (order->qty > 1)
        note_several(sale, order);
}

static const json_t *segment_of(const struct audit_sale *sale, size_t number)
{
    return json_array_get(json_object_get(sale->stock, "segments"), number);
}

static uint64_t sold_of(const struct audit_sale *sale, size_t number)
{
    return (uint64_t)answer_integer(segment_of(sale, number), "sold");
}

bool audit_sale_doubts(const struct audit_sale *sale, const struct audit_order *order)
{
    return order->segment < segment_count(sale) &&
           sale->ordered[order->segment] > sold_of(sale, order->segment);
}

void audit_sale_allocate(struct audit_sale *sale, const struct audit_order *order,
                         const json_t *allocations)
{
    size_t i;
    const json_t *part;
    if (!allocations)
        return;
    if (order->segment < segment_count(sale))
        sale->ordered[order->segment] -= order->qty;
    else
        sale->outside -= order->qty;
    json_array_foreach(allocations, i, part)
    {
        count_units(sale, (uint32_t)answer_integer(part, "segment"),
                    (uint64_t)answer_integer(part, "qty"));
    }
}

bool audit_sale_moved(const json_t *before, const json_t *after)
{
    return answer_integer(before, "round") != answer_integer(after, "round") ||
           !json_equal(json_object_get(before, "segments"), json_object_get(after, "segments"));
}

__attribute__((format(printf, 3, 4))) static void differ(const struct audit_sale *sale,
                                                         json_t *differences, const char *format,
                                                         ...)
{
    char text[TEXT_SIZE], whole[TEXT_SIZE + 80];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    snprintf(whole, sizeof whole, "%s: %s", sale->sku, text);
    json_array_append_new(differences, json_string(whole));
}

static void compare_segment(const struct audit_sale *sale, size_t number, json_t *differences)
{
    const json_t *segment = segment_of(sale, number);
    long long sold = answer_integer(segment, "sold");
    long long capacity = answer_integer(segment, "capacity");
    long long left = answer_integer(segment, "available");
    if ((uint64_t)sold != sale->ordered[number])
        differ(sale, differences, "segment %zu: %lld sold, %" PRIu64 " in orders", number, sold,
               sale->ordered[number]);
    if (sold > capacity)
        differ(sale, differences, "segment %zu: oversold, %lld of %lld", number, sold, capacity);
    if (capacity - sold != left)
        differ(sale, differences, "segment %zu: %lld left, of %lld with %lld sold", number, left,
               capacity, sold);
}

void audit_sale_compare(const struct audit_sale *sale, json_t *differences)
{
    long long total = answer_integer(sale->stock, "total"), capacity = 0;
    long long sold = answer_integer(sale->stock, "sold");
    long long left = answer_integer(sale->stock, "available");
    for (size_t i = 0; i < segment_count(sale); i++) {
        compare_segment(sale, i, differences);
        capacity += answer_integer(segment_of(sale, i), "capacity");
    }
    if (capacity != total)
        differ(sale, differences, "%lld units in all, %lld in its segments", total, capacity);
    if ((uint64_t)sold != sale->units)
        differ(sale, differences, "%lld sold, %" PRIu64 " in orders", sold, sale->units);
    if (total - sold != left)
        differ(sale, differences, "%lld left, of %lld with %lld sold", left, total, sold);
    if (sale->outside > 0)
        differ(sale, differences, "%" PRIu64 " units in segments that the sale does not have",
               sale->outside);
}

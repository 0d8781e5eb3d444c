/* Reads, adds up and compares the sales and orders of an audit. */
#include "ctl/commands/audit_read.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/identifier.h"
#include "ctl/commands/commands.h"
#include "ctl/csv.h"
#include "ctl/http.h"
#include "ctl/output/answer.h"
#include "ctl/pods.h"

enum { PATH_SIZE = 128, ID_SIZE = 24, SEGMENTS_MAX = 1024 };

/* ---- ids that clients saw ---- */

static bool add_id(void *argument, char **fields, size_t line)
{
    char name[ID_SIZE];
    struct audit *audit = argument;
    const struct context *context = audit->context;
    int64_t id = 0;
    (void)line;
    if (!number_parse(fields[0], 1, INT64_MAX, &id))
        return false;
    if (has_option(context, OPTION_POD) &&
        pods_of_order(&context->config, (uint64_t)id) != context->pods_begin)
        return true;
    snprintf(name, sizeof name, "%" PRId64, id);
    json_object_set_new(json_object_get(audit->acked, name) ? audit->repeated : audit->acked, name,
                        json_true());
    return true;
}

bool audit_read_acked(struct audit *audit, const char *path)
{
    static const struct csv csv = {{"order_id"}, 1, "the id of an order", add_id};
    return csv_read(&csv, path, audit);
}

/* ---- what the service says of sales ---- */

struct audit_sale *audit_find(struct audit *audit, const char *sku)
{
    for (size_t i = 0; i < audit->sale_count; i++)
        if (audit->sales[i].pod == audit->context->config.pod &&
            strcmp(audit->sales[i].sku, sku) == 0)
            return &audit->sales[i];
    return NULL;
}

static uint64_t long_count_of(const json_t *object, const char *name)
{
    return strtoull(answer_text(object, name), NULL, 10);
}

int audit_sale_add_page(void *argument, json_t *page)
{
    struct audit_sale *sale = argument;
    const json_t *users = json_object_get(page, "users");
    if (!json_is_array(json_object_get(page, "segments")))
        return EX_PROTOCOL;
    if (!sale->head) {
        sale->head = json_incref(page);
        sale->round = answer_integer(page, "round");
    }
    sale->user_units += answer_integer(users, "units");
    sale->user_hash_sum += long_count_of(users, "weighed");
    sale->users_over_limit += answer_integer(users, "above");
    return EX_OK;
}

static int read_sale(struct audit *audit, struct audit_sale *sale)
{
    char path[PATH_SIZE];
    struct pages pages = {
        .class = CLASS_ADMIN, .path = path, .take = audit_sale_add_page, .argument = sale};
    snprintf(path, sizeof path, "/admin/audit/%s", sale->sku);
    json_decref(sale->head);
    *sale = (struct audit_sale){.sku = sale->sku, .pod = sale->pod};
    return answer_pages(audit->context, &pages);
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

/* Reads the first page of the sale again, and keeps its new contents. */
static int read_sale_again(struct audit *audit, struct audit_sale *sale)
{
    char path[PATH_SIZE];
    struct reply reply;
    snprintf(path, sizeof path, "/admin/audit/%s", sale->sku);
    int status = answer_get(audit->context, path, &reply);
    if (status != EX_OK)
        return status;
    if (!json_is_array(json_object_get(reply.json, "segments"))) {
        say("the answer to %s is not of the form that this program knows", path);
        reply_free(&reply);
        return EX_PROTOCOL;
    }
    audit->moved = audit->moved || sale->round_changed || audit_sale_moved(sale->head, reply.json);
    json_decref(sale->head);
    sale->head = json_incref(reply.json);
    reply_free(&reply);
    return EX_OK;
}

static int read_sales(struct audit *audit, int (*read)(struct audit *, struct audit_sale *))
{
    int status = EX_OK;
    for (size_t i = 0; i < audit->sale_count && status == EX_OK; i++) {
        config_use_pod(&audit->context->config, audit->sales[i].pod);
        status = read(audit, &audit->sales[i]);
    }
    return status;
}

/* ---- what it says of orders ---- */

void audit_sale_add_orders(struct audit_sale *sale, const json_t *sums)
{
    const json_t *states = json_object_get(sums, "states");
    const json_t *payments = json_object_get(sums, "payments"); /* an older daemon has none */
    sale->round_changed = sale->round_changed || answer_integer(sums, "round") != sale->round;
    sale->reserved += answer_integer(states, "reserved");
    sale->paid += answer_integer(states, "paid");
    sale->cancelled += answer_integer(states, "cancelled");
    sale->expired += answer_integer(states, "expired");
    sale->refunded += answer_integer(states, "refunded");
    sale->taken += answer_integer(payments, "taken");
    sale->refund_due += answer_integer(payments, "refund_due");
    sale->paid_back += answer_integer(payments, "refunded");
    sale->failed += answer_integer(payments, "failed");
    sale->units += answer_integer(sums, "units");
    sale->unreturned += answer_integer(sums, "unreturned");
    sale->hash_sum += long_count_of(sums, "weighed");
    sale->unkeyed += answer_integer(sums, "unkeyed");
    sale->without_expiry += answer_integer(sums, "unlisted");
    sale->unmatched += answer_integer(sums, "unmatched");
}

static int take_orders(void *argument, json_t *page)
{
    size_t i;
    const json_t *sums;
    json_array_foreach(json_object_get(page, "sales"), i, sums)
    {
        struct audit_sale *sale = audit_find(argument, answer_text(sums, "sku"));
        if (sale)
            audit_sale_add_orders(sale, sums);
    }
    return EX_OK;
}

static int read_orders(struct audit *audit)
{
    char path[PATH_SIZE];
    bool one = audit->sale_count == 1;
    struct pages pages = {
        .class = CLASS_ADMIN, .path = path, .take = take_orders, .argument = audit, .after = "0"};
    snprintf(path, sizeof path, "/admin/audit%s%s", one ? "?sku=" : "",
             one ? audit->sales[0].sku : "");
    return answer_pages(audit->context, &pages);
}

static bool has_sales(const struct audit *audit)
{
    for (size_t i = 0; i < audit->sale_count; i++)
        if (audit->sales[i].pod == audit->context->config.pod)
            return true;
    return false;
}

static int see_order(void *argument, const json_t *order)
{
    struct audit *audit = argument;
    json_object_del(audit->missing, answer_text(order, "order_id"));
    return EX_OK;
}

static int read_ids(struct audit *audit)
{
    struct listing listing = {.take = see_order, .argument = audit};
    return json_object_size(audit->acked) == 0 ? EX_OK : listing_walk(audit->context, &listing);
}

/* Each line of the file may be for an order of any sale; of the sales that are named, or else of
 * all, each payment must be in the file. */
static int take_payments(void *argument, json_t *page)
{
    struct audit *audit = argument;
    size_t i;
    const json_t *payment, *payments = json_object_get(page, "payments");
    bool all = audit->context->options.argument_count == 1, good = json_is_array(payments);
    json_array_foreach(payments, i, payment)
    {
        bool failed =
            strcmp(answer_text(payment, "state"), "failed") == 0; /* the file may lack it */
        bool due = !failed && (all || audit_find(audit, answer_text(payment, "sku")));
        good = good && payment_file_compare(&audit->payments, payment, due);
    }
    return good ? EX_OK : EX_PROTOCOL;
}

static int read_payments(struct audit *audit)
{
    struct pages pages = {.class = CLASS_ADMIN,
                          .path = "/admin/payments?limit=1000",
                          .patient = true,
                          .take = take_payments,
                          .argument = audit};
    bool wanted = has_option(audit->context, OPTION_PAYMENTS);
    return wanted ? answer_pages(audit->context, &pages) : EX_OK;
}

int audit_read(struct audit *audit)
{
    struct context *context = audit->context;
    int status = read_sales(audit, read_sale);
    json_object_update(audit->missing, audit->acked);
    payment_file_begin(&audit->payments);
    for (size_t pod = context->pods_begin; pod < context->pods_end && status == EX_OK; pod++) {
        config_use_pod(&context->config, pod);
        status = has_sales(audit) ? read_orders(audit) : EX_OK;
        status = status == EX_OK ? read_ids(audit) : status;
        status = status == EX_OK ? read_payments(audit) : status;
    }
    payment_file_end(&audit->payments);
    audit->moved = false;
    return status == EX_OK ? read_sales(audit, read_sale_again) : status;
}

/* ---- comparing ---- */

static size_t segment_count(const struct audit_sale *sale)
{
    size_t count = json_array_size(json_object_get(sale->head, "segments"));
    return count < SEGMENTS_MAX ? count : SEGMENTS_MAX;
}

static const json_t *segment_of(const struct audit_sale *sale, size_t place)
{
    return json_array_get(json_object_get(sale->head, "segments"), place);
}

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

/* The service itself recovers a segment that is not settled at the ledger's fence before it sells
 * from it; only another number of units is a difference. */
static void compare_redis(const struct audit_sale *sale, const json_t *segment, json_t *differences,
                          json_t *awaiting)
{
    long long number = answer_integer(segment, "segment");
    const char *state = answer_text(segment, "state");
    if (strcmp(state, "mismatch") == 0)
        tell(sale, differences, "segment %lld: Redis has %lld left, the ledger %lld", number,
             answer_integer(json_object_get(segment, "redis"), "available"),
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

/* Skips a sale that is being counted for a new limit, because its count is not complete. */
static void compare_users(const struct audit_sale *sale, json_t *differences)
{
    if (!json_is_integer(json_object_get(sale->head, "per_user_limit")) ||
        json_is_true(json_object_get(sale->head, "counting")))
        return;
    if (sale->user_units != sale->units)
        tell(sale, differences, "%lld units are counted for users, %lld in orders",
             sale->user_units, sale->units);
    else if (sale->user_hash_sum != sale->hash_sum)
        tell(sale, differences,
             "the users whose units are counted are not the users of the orders");
    if (sale->users_over_limit > 0)
        tell(sale, differences, "%lld users have more than their limit", sale->users_over_limit);
}

static void compare_faults(const struct audit_sale *sale, json_t *differences)
{
    if (sale->unkeyed > 0)
        tell(sale, differences, "%lld orders whose idempotency key does not lead to them",
             sale->unkeyed);
    if (sale->without_expiry > 0)
        tell(sale, differences, "%lld reserved orders that would never expire",
             sale->without_expiry);
    if (sale->unmatched > 0)
        tell(sale, differences, "%lld orders whose payments contradict their status",
             sale->unmatched);
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
    if (sold != sale->units)
        tell(sale, differences, "%lld sold, %lld in orders", sold, sale->units);
    compare_users(sale, differences);
    compare_faults(sale, differences);
}

void audit_compare(struct audit *audit)
{
    json_array_clear(audit->differences);
    json_array_clear(audit->awaiting);
    for (size_t i = 0; i < audit->sale_count; i++)
        audit_sale_compare(&audit->sales[i], audit->differences, audit->awaiting);
    if (json_object_size(audit->missing) > 0)
        json_array_append_new(
            audit->differences,
            json_sprintf("%zu orders that clients saw accepted are missing, such as %s",
                         json_object_size(audit->missing),
                         json_object_iter_key(json_object_iter(audit->missing))));
    if (json_object_size(audit->repeated) > 0)
        json_array_append_new(
            audit->differences,
            json_sprintf("%zu orders were accepted more than once, as clients saw it, such as %s",
                         json_object_size(audit->repeated),
                         json_object_iter_key(json_object_iter(audit->repeated))));
    json_array_extend(audit->differences, audit->payments.faults);
    json_array_extend(audit->differences, audit->payments.differences);
    if (has_option(audit->context, OPTION_SETTLED))
        json_array_extend(audit->differences, audit->awaiting);
}

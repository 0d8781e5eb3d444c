/* Reads the sales and orders that an audit compares, and the ids that clients saw. */
#include "ctl/commands/audit_read.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/identifier.h"
#include "ctl/output/answer.h"
#include "ctl/http.h"
#include "ctl/commands/export.h"

enum { PATH_SIZE = 128 + ENCODED_USER_SIZE, ID_SIZE = 24, LINE_SIZE = 64 };

/* ---- ids that clients saw ---- */

static int compare_ids(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void add_id(struct acked *acked, size_t *size, uint64_t id)
{
    if (acked->count == *size) {
        *size = *size ? *size * 2 : 1024;
        acked->ids = realloc(acked->ids, *size * sizeof *acked->ids);
        if (!acked->ids)
            abort();
    }
    acked->ids[acked->count++] = id;
}

static bool read_id_lines(struct acked *acked, FILE *file, const char *path)
{
    char line[LINE_SIZE];
    size_t size = 0, number = 0;
    int64_t id = 0;
    while (fgets(line, sizeof line, file)) {
        number++;
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] == '\0')
            continue;
        if (!number_parse(line, 1, INT64_MAX, &id)) {
            say("%s:%zu: not the id of an order", path, number);
            return false;
        }
        add_id(acked, &size, (uint64_t)id);
    }
    return true;
}

static void sort_ids(struct acked *acked)
{
    size_t kept = 0;
    if (acked->count > 0)
        qsort(acked->ids, acked->count, sizeof *acked->ids, compare_ids);
    for (size_t i = 0; i < acked->count; i++)
        if (i == 0 || acked->ids[i] != acked->ids[i - 1])
            acked->ids[kept++] = acked->ids[i];
    acked->repeats = acked->count - kept;
    acked->count = kept;
    acked->seen = calloc(kept + 1, sizeof *acked->seen);
    if (!acked->seen)
        abort();
}

bool acked_read(struct acked *acked_out, const char *path)
{
    *acked_out = (struct acked){.ids = NULL};
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    if (!file) {
        say("%s: %s", path, strerror(errno));
        return false;
    }
    bool good = read_id_lines(acked_out, file, path);
    if (!standard)
        fclose(file);
    if (good)
        sort_ids(acked_out);
    else
        acked_free(acked_out);
    return good;
}

void acked_free(struct acked *acked)
{
    free(acked->ids);
    free(acked->seen);
    *acked = (struct acked){.ids = NULL};
}

void acked_see(struct acked *acked, uint64_t id)
{
    uint64_t *found =
        acked->count ? bsearch(&id, acked->ids, acked->count, sizeof id, compare_ids) : NULL;
    if (found)
        acked->seen[found - acked->ids] = true;
}

void acked_restart(struct acked *acked)
{
    for (size_t i = 0; i < acked->count; i++)
        acked->seen[i] = false;
}

size_t acked_missing(const struct acked *acked, uint64_t *first_out)
{
    size_t missing = 0;
    for (size_t i = 0; i < acked->count; i++)
        if (!acked->seen[i] && missing++ == 0)
            *first_out = acked->ids[i];
    return missing;
}

/* ---- what the service says ---- */

struct audit_sale *audit_find(struct audit *audit, const char *sku)
{
    for (size_t i = 0; i < audit->sale_count; i++)
        if (audit->sales[i].pod == audit->context->config.pod &&
            strcmp(audit->sales[i].sku, sku) == 0)
            return &audit->sales[i];
    return NULL;
}

/* A page of a sale; `user` is then where the next one begins, "" behind the last. */
static int read_sale_page(struct audit *audit, const char *sku, char user[USER_ID_SIZE],
                          struct reply *reply_out)
{
    char path[PATH_SIZE], encoded[ENCODED_USER_SIZE];
    snprintf(path, sizeof path, "/admin/audit/%s%s%s", sku, *user ? "?after=" : "",
             http_encode_user(user, encoded));
    int status = answer_get(audit->context, path, reply_out);
    if (status != EX_OK)
        return status;
    const char *next = answer_text(reply_out->json, "next");
    bool fits = strlen(next) < USER_ID_SIZE;
    snprintf(user, USER_ID_SIZE, "%s", fits ? next : "");
    if (fits && json_is_array(json_object_get(reply_out->json, "segments")))
        return EX_OK;
    say("the audit of %s is not of the form that this program knows", sku);
    reply_free(reply_out);
    return EX_PROTOCOL;
}

static int read_sale(struct audit *audit, struct audit_sale *sale)
{
    char user[USER_ID_SIZE] = "";
    struct reply reply;
    const char *sku = sale->sku;
    int status = read_sale_page(audit, sku, user, &reply);
    if (status != EX_OK)
        return status;
    audit_sale_free(sale);
    audit_sale_begin(sale, sku, audit->context->config.pod, json_incref(reply.json));
    audit_sale_add_users(sale, reply.json);
    reply_free(&reply);
    while (user[0] != '\0') {
        status = read_sale_page(audit, sku, user, &reply);
        if (status != EX_OK)
            return status;
        audit_sale_add_users(sale, reply.json);
        reply_free(&reply);
    }
    return EX_OK;
}

static int read_sales(struct audit *audit)
{
    int status = EX_OK;
    for (size_t i = 0; i < audit->sale_count && status == EX_OK; i++) {
        config_use_pod(&audit->context->config, audit->sales[i].pod);
        status = read_sale(audit, &audit->sales[i]);
    }
    return status;
}

/* Reads the first page of each sale again, and keeps what it says now. */
static int read_sales_again(struct audit *audit)
{
    int status = EX_OK;
    audit->moved = false;
    for (size_t i = 0; i < audit->sale_count && status == EX_OK; i++) {
        char user[USER_ID_SIZE] = "";
        struct reply reply;
        struct audit_sale *sale = &audit->sales[i];
        config_use_pod(&audit->context->config, sale->pod);
        status = read_sale_page(audit, sale->sku, user, &reply);
        if (status != EX_OK)
            continue;
        audit->moved =
            audit->moved || sale->round_changed || audit_sale_moved(sale->head, reply.json);
        json_decref(sale->head);
        sale->head = json_incref(reply.json);
        reply_free(&reply);
    }
    return status;
}

static int read_orders_page(struct audit *audit, char after[ID_SIZE])
{
    char path[PATH_SIZE];
    struct reply reply;
    size_t i;
    const json_t *sums;
    bool one = audit->sale_count == 1;
    snprintf(path, sizeof path, "/admin/audit?after=%s%s%s", after, one ? "&sku=" : "",
             one ? audit->sales[0].sku : "");
    int status = answer_get(audit->context, path, &reply);
    if (status != EX_OK)
        return status;
    json_array_foreach(json_object_get(reply.json, "sales"), i, sums)
    {
        struct audit_sale *sale = audit_find(audit, answer_text(sums, "sku"));
        if (sale)
            audit_sale_add_orders(sale, sums);
    }
    const char *next = answer_text(reply.json, "next");
    size_t length = strspn(next, "0123456789");
    snprintf(after, ID_SIZE, "%.*s", (int)(length < ID_SIZE ? length : 0), next);
    reply_free(&reply);
    return EX_OK;
}

static int read_orders(struct audit *audit)
{
    char after[ID_SIZE] = "0";
    int status = EX_OK;
    while (status == EX_OK && after[0] != '\0')
        status = read_orders_page(audit, after);
    return status;
}

/* True if the audit has a sale of the present pod. */
static bool has_sales(const struct audit *audit)
{
    for (size_t i = 0; i < audit->sale_count; i++)
        if (audit->sales[i].pod == audit->context->config.pod)
            return true;
    return false;
}

static bool see_order(void *argument, const json_t *order)
{
    struct audit *audit = argument;
    acked_see(&audit->acked, strtoull(answer_text(order, "order_id"), NULL, 10));
    return true;
}

static int read_ids(struct audit *audit)
{
    struct listing listing = {.take = see_order, .argument = audit};
    return audit->acked.count == 0 ? EX_OK : listing_walk(audit->context, &listing);
}

int audit_read(struct audit *audit)
{
    struct context *context = audit->context;
    int status = read_sales(audit);
    acked_restart(&audit->acked);
    for (size_t pod = context->pods_begin; pod < context->pods_end && status == EX_OK; pod++) {
        config_use_pod(&context->config, pod);
        status = has_sales(audit) ? read_orders(audit) : EX_OK;
        status = status == EX_OK ? read_ids(audit) : status;
    }
    return status == EX_OK ? read_sales_again(audit) : status;
}

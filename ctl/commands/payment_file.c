/* Compares payments with what the payment provider exports, for audit --payments. */
#include "ctl/commands/payment_file.h"

#include <inttypes.h>
#include <string.h>

#include "base/identifier.h"
#include "ctl/csv.h"
#include "ctl/output/answer.h"
#include "ctl/pods.h"

enum { NAME_SIZE = USER_ID_SIZE + 32 };

/* ---- the file ---- */

/* A ref has no blank. */
static const char *name_of(char name[NAME_SIZE], const char *ref, int64_t order)
{
    snprintf(name, NAME_SIZE, "%s of order %" PRId64, ref, order);
    return name;
}

static void add_payment(struct payment_file *file, const char *name, size_t number)
{
    long long before = answer_integer(file->lines, name);
    if (before > 0)
        json_array_append_new(file->faults, json_sprintf("line %zu: %s is in line %lld already",
                                                         number, name, before));
    else
        json_object_set_new(file->lines, name, json_integer((json_int_t)number));
}

static bool take_line(void *argument, char **fields, size_t number)
{
    struct payment_file *file = argument;
    const struct context *context = file->context;
    char name[NAME_SIZE];
    int64_t id = 0;
    if (!user_id_valid(fields[0], strlen(fields[0])) || !number_parse(fields[1], 1, INT64_MAX, &id))
        return false;
    if (!has_option(context, OPTION_POD) ||
        pods_of_order(&context->config, (uint64_t)id) == context->pods_begin)
        add_payment(file, name_of(name, fields[0], id), number);
    return true;
}

bool payment_file_read(struct payment_file *file, const struct context *context, const char *path)
{
    static const struct csv csv = {
        {"payment_ref", "order_id"}, 2, "a payment_ref and an order id", take_line};
    *file = (struct payment_file){.context = context,
                                  .lines = json_object(),
                                  .unknown = json_object(),
                                  .faults = json_array(),
                                  .differences = json_array()};
    return csv_read(&csv, path, file);
}

void payment_file_free(struct payment_file *file)
{
    json_decref(file->lines);
    json_decref(file->unknown);
    json_decref(file->faults);
    json_decref(file->differences);
}

/* ---- the service ---- */

void payment_file_begin(struct payment_file *file)
{
    json_array_clear(file->differences);
    file->agreed = 0;
    json_object_clear(file->unknown); /* so that its order is the file's */
    json_object_update(file->unknown, file->lines);
}

bool payment_file_compare(struct payment_file *file, const json_t *payment, bool due)
{
    const char *ref = answer_text(payment, "payment_ref");
    char name[NAME_SIZE];
    int64_t order = 0;
    if (*ref == '\0' || !number_parse(answer_text(payment, "order_id"), 1, INT64_MAX, &order))
        return false;
    if (json_object_get(file->lines, name_of(name, ref, order))) {
        json_object_del(file->unknown, name);
        file->agreed++;
    } else if (due) {
        json_array_append_new(file->differences, json_sprintf("%s, which is %s, is not in the file",
                                                              name, answer_text(payment, "state")));
    }
    return true;
}

void payment_file_end(struct payment_file *file)
{
    const char *name;
    json_t *line;
    json_object_foreach(file->unknown, name, line)
    {
        json_array_append_new(file->differences,
                              json_sprintf("line %lld: the service does not know %s",
                                           (long long)json_integer_value(line), name));
    }
}

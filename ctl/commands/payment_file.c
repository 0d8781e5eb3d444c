/* Compares payments with what the payment provider exports, for audit --payments. */
#include "ctl/commands/payment_file.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/identifier.h"
#include "ctl/csv.h"
#include "ctl/output/answer.h"
#include "ctl/pods.h"

enum { LINES_STEP = 1024, NAME_SIZE = USER_ID_SIZE + 32 };

/* ---- the file ---- */

/* A ref has no blank. */
static const char *name_of(char name[NAME_SIZE], const char *ref, int64_t order)
{
    snprintf(name, NAME_SIZE, "%s of order %" PRId64, ref, order);
    return name;
}

static void add_payment(struct payment_file *file, const char *name, size_t number)
{
    const json_t *place = json_object_get(file->places, name);
    if (place) {
        json_array_append_new(file->faults,
                              json_sprintf("line %zu: %s is in line %zu already", number, name,
                                           file->lines[json_integer_value(place)].number));
        return;
    }
    if (file->count % LINES_STEP == 0)
        file->lines = realloc(file->lines, (file->count + LINES_STEP) * sizeof *file->lines);
    if (!file->lines)
        abort();
    json_object_set_new(file->places, name, json_integer((json_int_t)file->count));
    file->lines[file->count++] = (struct payment_line){.number = number};
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
                                  .places = json_object(),
                                  .faults = json_array(),
                                  .differences = json_array()};
    return csv_read(&csv, path, file);
}

void payment_file_free(struct payment_file *file)
{
    free(file->lines);
    json_decref(file->places);
    json_decref(file->faults);
    json_decref(file->differences);
}

/* ---- the service ---- */

void payment_file_begin(struct payment_file *file)
{
    json_array_clear(file->differences);
    file->agreed = 0;
    for (size_t i = 0; i < file->count; i++)
        file->lines[i].known = false;
}

bool payment_file_compare(struct payment_file *file, const json_t *payment, bool due)
{
    const char *ref = answer_text(payment, "payment_ref");
    char name[NAME_SIZE];
    int64_t order = 0;
    if (*ref == '\0' || !number_parse(answer_text(payment, "order_id"), 1, INT64_MAX, &order))
        return false;
    const json_t *place = json_object_get(file->places, name_of(name, ref, order));
    if (place)
        file->lines[json_integer_value(place)].known = true;
    else if (due)
        json_array_append_new(file->differences, json_sprintf("%s, which is %s, is not in the file",
                                                              name, answer_text(payment, "state")));
    file->agreed += place != NULL;
    return true;
}

void payment_file_end(struct payment_file *file)
{
    const char *name;
    json_t *place;
    json_object_foreach(file->places, name, place)
    {
        const struct payment_line *line = &file->lines[json_integer_value(place)];
        if (!line->known)
            json_array_append_new(
                file->differences,
                json_sprintf("line %zu: the service does not know %s", line->number, name));
    }
}

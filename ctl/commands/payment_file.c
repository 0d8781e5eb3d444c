/* Compares payments with what the payment provider exports, for audit --payments. */
#include "ctl/commands/payment_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/identifier.h"
#include "ctl/output/answer.h"
#include "ctl/pods.h"

enum { LINE_SIZE = 512 /* a ref of quotes, each doubled, takes 258 */, LINES_STEP = 1024 };
enum { NAME_SIZE = USER_ID_SIZE + 32 };

#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* spreadsheets begin a file with it */

/* ---- the file ---- */

/* Reads a line without its end. What no payment can have, a NUL or more bytes, leaves a blank. */
static bool read_line(FILE *in, char line[LINE_SIZE])
{
    size_t length = 0;
    int byte;
    while ((byte = getc(in)) != EOF && byte != '\n')
        if (length + 1 < LINE_SIZE)
            line[length++] = byte == '\0' ? ' ' : (char)byte;
        else
            line[0] = ' ';
    bool some = byte != EOF || length > 0;
    if (length > 0 && line[length - 1] == '\r')
        length--;
    line[length] = '\0';
    return some;
}

/* Takes a field off the line, which is NULL after the last one. NULL if a quote stays open. */
static char *take_field(char **line)
{
    char *field = *line, *from = field, *to = field;
    bool quoted = false;
    for (; *from && (quoted || *from != ','); from++)
        if (*from != '"')
            *to++ = *from;
        else if (quoted && from[1] == '"')
            *to++ = *from++;
        else
            quoted = !quoted;
    *line = *from == ',' ? from + 1 : NULL;
    *to = '\0';
    return quoted ? NULL : field;
}

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

static void take_line(struct payment_file *file, const struct context *context, char *line,
                      size_t number)
{
    char *rest = line, name[NAME_SIZE];
    const char *ref = take_field(&rest), *order = rest ? take_field(&rest) : NULL;
    int64_t id = 0;
    if (!ref || !order || rest || !user_id_valid(ref, strlen(ref)) ||
        !number_parse(order, 1, INT64_MAX, &id)) {
        if (number > 1 || !ref || strcmp(ref, "payment_ref") != 0)
            json_array_append_new(
                file->faults, json_sprintf("line %zu: not a payment_ref and an order id", number));
    } else if (!has_option(context, OPTION_POD) ||
               pods_of_order(&context->config, (uint64_t)id) == context->pods_begin) {
        add_payment(file, name_of(name, ref, id), number);
    }
}

bool payment_file_read(struct payment_file *file, const struct context *context, const char *path)
{
    char line[LINE_SIZE] = "";
    bool standard = strcmp(path, "-") == 0;
    FILE *in = standard ? stdin : fopen(path, "re");
    *file = (struct payment_file){
        .places = json_object(), .faults = json_array(), .differences = json_array()};
    for (size_t number = 1; in && read_line(in, line); number++) {
        size_t mark = strlen(BYTE_ORDER_MARK);
        char *text = number == 1 && strncmp(line, BYTE_ORDER_MARK, mark) == 0 ? line + mark : line;
        if (text[strspn(text, " \t")] != '\0')
            take_line(file, context, text, number);
    }
    bool good = in && !ferror(in);
    if (!good)
        say("%s: %s", path, strerror(errno));
    if (in && !standard)
        fclose(in);
    return good;
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

/* Prints a table for readers: columns as wide as their widest cell, in characters of UTF-8. */
#define _GNU_SOURCE /* asprintf */
#include "ctl/output/table.h"

#include <assert.h>
#include <stdbool.h>
#include <string.h>

#include "base/memory.h"
#include "ctl/output/say.h"

enum { COLUMNS_MAX = 16, NAME_SIZE = 64 };

static const json_t *find_member(const json_t *row, const char *path)
{
    char name[NAME_SIZE];
    for (;;) {
        size_t length = strcspn(path, ".");
        assert(length < sizeof name);
        snprintf(name, sizeof name, "%.*s", (int)length, path);
        row = json_object_get(row, name);
        if (path[length] == '\0')
            return row;
        path += length + 1;
    }
}

/* Writes a cell's text, which the caller frees. */
static char *write_cell(const struct column *column, const json_t *row)
{
    char *cell = NULL;
    int length = 0;
    const json_t *value = find_member(row, column->member);
    const char *text = json_string_value(value);
    if (json_is_integer(value))
        length = asprintf(&cell, "%lld%s", (long long)json_integer_value(value),
                          column->cell == CELL_SECONDS ? " s" : "");
    else if (json_is_real(value))
        length = asprintf(&cell, "%.*f", column->cell == CELL_TENTHS, json_real_value(value));
    else
        length = asprintf(&cell, "%s", text && *text ? text : "-");
    if (length < 0)
        abort();
    say_clean(cell);
    return cell;
}

/* Counts no bytes that continue a character of UTF-8 (10xxxxxx). */
static size_t width_of(const char *text)
{
    size_t width = 0;
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        width += (*at & 0xc0) != 0x80;
    return width;
}

static void print_cell(FILE *out, const char *text, size_t width, bool right, bool last)
{
    int fill = (int)(width - width_of(text));
    if (right)
        fprintf(out, "%*s%s", fill, "", text);
    else if (last)
        fputs(text, out); /* no blanks at the end of a line */
    else
        fprintf(out, "%s%*s", text, fill, "");
    fputs(last ? "\n" : "  ", out);
}

void table_print(const struct column *columns, size_t column_count, const json_t *rows, FILE *out)
{
    size_t count = json_array_size(rows) * column_count, widths[COLUMNS_MAX];
    char **cells = memory_must(calloc(count + 1, sizeof *cells));
    assert(column_count > 0 && column_count <= COLUMNS_MAX);
    for (size_t i = 0; i < column_count; i++)
        widths[i] = width_of(columns[i].head);
    for (size_t i = 0; i < count; i++) {
        size_t *width = &widths[i % column_count];
        cells[i] = write_cell(&columns[i % column_count], json_array_get(rows, i / column_count));
        *width = width_of(cells[i]) > *width ? width_of(cells[i]) : *width;
    }
    for (size_t i = 0; i < column_count; i++)
        print_cell(out, columns[i].head, widths[i], columns[i].cell != CELL_TEXT,
                   i + 1 == column_count);
    for (size_t i = 0; i < count; i++) {
        size_t column = i % column_count;
        print_cell(out, cells[i], widths[column], columns[column].cell != CELL_TEXT,
                   column + 1 == column_count);
        free(cells[i]);
    }
    free(cells);
}

/* A table for readers: columns as wide as their widest cell, counted in characters of UTF-8. */
#define _GNU_SOURCE /* asprintf */
#include "ctl/output/table.h"

#include <assert.h>
#include <stdarg.h>
#include <stdlib.h>

#include "ctl/output/say.h"

enum { COLUMNS_MAX = 16 };

void table_begin(struct table *table_out, const struct column *columns, size_t column_count)
{
    assert(column_count > 0 && column_count <= COLUMNS_MAX);
    *table_out = (struct table){.columns = columns, .column_count = column_count};
}

void table_add(struct table *table, const char *format, ...)
{
    char *cell = NULL;
    va_list args;
    va_start(args, format);
    int length = vasprintf(&cell, format, args);
    va_end(args);
    if (length < 0)
        abort();
    say_clean(cell);
    if (table->cell_count == table->size) {
        table->size = table->size ? table->size * 2 : 64;
        table->cells = realloc(table->cells, table->size * sizeof *table->cells);
        if (!table->cells)
            abort();
    }
    table->cells[table->cell_count++] = cell;
}

/* Bytes that continue a character of UTF-8 are 10xxxxxx. */
size_t table_width(const char *text)
{
    size_t width = 0;
    for (const unsigned char *at = (const unsigned char *)text; *at; at++)
        width += (*at & 0xc0) != 0x80;
    return width;
}

static void print_cell(FILE *out, const char *text, size_t width, bool right, bool last)
{
    int fill = (int)(width - table_width(text));
    if (right)
        fprintf(out, "%*s%s", fill, "", text);
    else if (last)
        fputs(text, out); /* no blanks at the end of a line */
    else
        fprintf(out, "%s%*s", text, fill, "");
    fputs(last ? "\n" : "  ", out);
}

void table_print(struct table *table, FILE *out)
{
    size_t count = table->column_count, widths[COLUMNS_MAX];
    assert(table->cell_count % count == 0);
    for (size_t i = 0; i < count; i++)
        widths[i] = table_width(table->columns[i].head);
    for (size_t i = 0; i < table->cell_count; i++)
        if (table_width(table->cells[i]) > widths[i % count])
            widths[i % count] = table_width(table->cells[i]);
    for (size_t i = 0; i < count; i++)
        print_cell(out, table->columns[i].head, widths[i], table->columns[i].right, i + 1 == count);
    for (size_t i = 0; i < table->cell_count; i++) {
        print_cell(out, table->cells[i], widths[i % count], table->columns[i % count].right,
                   (i + 1) % count == 0);
        free(table->cells[i]);
    }
    free(table->cells);
    *table = (struct table){.columns = NULL};
}

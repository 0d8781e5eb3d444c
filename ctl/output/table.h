/* Prints a table for readers: columns as wide as their widest cell, in characters of UTF-8. */
#ifndef SECKILL_CTL_OUTPUT_TABLE_H
#define SECKILL_CTL_OUTPUT_TABLE_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

/* Numbers stand at the right; real ones are rounded, CELL_TENTHS to tenths. */
enum cell { CELL_TEXT, CELL_NUMBER, CELL_SECONDS, CELL_TENTHS };

struct column {
    const char *head;
    const char *member; /* the member of a row to show; "a.b" is b within a */
    enum cell cell;
};

/* Prints the heads and a line for each row, an array of objects. A cell is "-" if the row's member
 * is missing, null or an empty text. Control characters become '?'. */
void table_print(const struct column *columns, size_t column_count, const json_t *rows, FILE *out);

#define TABLE_PRINT(columns, rows)                                                                 \
    table_print(columns, sizeof(columns) / sizeof(columns)[0], rows, stdout)

#endif

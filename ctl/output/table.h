/* A table for readers: columns as wide as their widest cell, counted in characters of UTF-8. */
#ifndef SECKILL_CTL_OUTPUT_TABLE_H
#define SECKILL_CTL_OUTPUT_TABLE_H

#include <jansson.h>
#include <stddef.h>
#include <stdio.h>

/* Numbers stand at the right; real ones are rounded, to tenths where that is said. */
enum cell { CELL_TEXT, CELL_NUMBER, CELL_SECONDS, CELL_TENTHS };

struct column {
    const char *head;
    const char *member; /* of a row that the cell shows; "a.b" is b within a */
    enum cell cell;
};

/* Prints the heads and a line for each row, an array of objects. A cell is "-" where a row has no
 * such member, null or an empty text. Control characters become '?'. */
void table_print(const struct column *columns, size_t column_count, const json_t *rows, FILE *out);

#define TABLE_PRINT(columns, rows)                                                                 \
    table_print(columns, sizeof(columns) / sizeof(columns)[0], rows, stdout)

#endif

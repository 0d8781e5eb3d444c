/* A table for readers: columns as wide as their widest cell, counted in characters of UTF-8. */
#ifndef SECKILL_CTL_OUTPUT_TABLE_H
#define SECKILL_CTL_OUTPUT_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

struct column {
    const char *head;
    bool right; /* numbers */
};

struct table {
    const struct column *columns; /* the caller's */
    size_t column_count;
    char **cells; /* row by row */
    size_t cell_count, size;
};

/* Begins an empty table; the columns must stay. */
void table_begin(struct table *table_out, const struct column *columns, size_t column_count);

/* Adds the next cell of the present row; a row that is full is followed by the next one. Control
 * characters become '?'. */
void table_add(struct table *table, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints the heads and all rows, none of which is incomplete, and frees the table. */
void table_print(struct table *table, FILE *out);

/* The characters of a text of UTF-8, each taken to be one column wide. */
size_t table_width(const char *text);

#endif

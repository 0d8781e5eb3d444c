/* Reads files of comma-separated values, as spreadsheets and payment providers write them. */
#ifndef SECKILL_CTL_CSV_H
#define SECKILL_CTL_CSV_H

#include <stdbool.h>
#include <stddef.h>

enum { CSV_COLUMNS_MAX = 2 };

/* The columns that a file must have. `take` gets their fields of one record, which begins in this
 * line; false: they are not `what`. */
struct csv {
    const char *names[CSV_COLUMNS_MAX];
    size_t count;
    const char *what;
    bool (*take)(void *argument, char **fields, size_t line);
};

/* Reads a file in the form of RFC 4180, with a byte order mark or without; "-" is standard input. A
 * first record with all the names is a header: then the columns may stand in any order, among
 * others. Without one each record has these columns alone, in this order. Blank lines are left out.
 * False after a message, which names the first line that is not so. */
bool csv_read(const struct csv *csv, const char *path, void *argument);

#endif

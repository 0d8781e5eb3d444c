/* A growing SQL text. */
#ifndef SQL_SQL_TEXT_H
#define SQL_SQL_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Zero-initialised it is empty and ready. Kept by its owner from query to query, so that a hot path
 * stops allocating after a while. */
struct sql_text {
    char *text;
    size_t length;
    size_t size;
};

void sql_clear(struct sql_text *sql);
void sql_free(struct sql_text *sql);

/* Appends as printf does; only for numbers and text of our own. Dies when out of memory. */
void sql_printf(struct sql_text *sql, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

void sql_append(struct sql_text *sql, const char *text, size_t length);
void sql_number(struct sql_text *sql, uint64_t number);

/* Appends 'word'. A word is a sku, user id or key: [A-Za-z0-9._:-] only, which the service has
 * checked; anything else is a programming error and dies here, before it can be SQL. */
void sql_word(struct sql_text *sql, const char *word);

/* The same without quotes, for a text within a text. */
void sql_bare_word(struct sql_text *sql, const char *word);

#endif

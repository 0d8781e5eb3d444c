/* A growing SQL text. */
#ifndef SQL_SQL_TEXT_H
#define SQL_SQL_TEXT_H

#include <stdarg.h>
#include <stddef.h>

/* Zero-initialised, a text is empty and ready. Its owner keeps it from query to query, so that a
 * hot path stops allocating after a while. */
struct sql_text {
    char *text;
    size_t length;
    size_t size;
};

void sql_clear(struct sql_text *sql);
void sql_free(struct sql_text *sql);

/* Appends as printf does, where
 *
 *   %s   is a value: an identifier, a user id or another text of printable signs without blanks,
 *        which the service has checked. It gets its quotes and escapes here; NULL becomes NULL.
 *        Any other text is a programming error and aborts before it can be SQL.
 *   %-s  is a piece of SQL of our own, appended as it is.
 *   %d, %u and %ju are numbers, without flags or width.
 *
 * The connection's sql_mode has backslashes as escapes (db_connection.c). Aborts when memory runs
 * out. */
void sql_printf(struct sql_text *sql, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
void sql_vprintf(struct sql_text *sql, const char *format, va_list *args);

/* Empties the text and then appends as sql_printf does. */
void sql_begin(struct sql_text *sql, const char *format, ...) __attribute__((format(printf, 2, 3)));

void sql_append(struct sql_text *sql, const char *text, size_t length);

/* Appends a value with its escapes and without quotes, within a text that has them. */
void sql_append_value(struct sql_text *sql, const char *text);

#endif

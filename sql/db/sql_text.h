/* A growing SQL text. */
#ifndef SQL_SQL_TEXT_H
#define SQL_SQL_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* Zero-initialised, a text is empty and ready. Its owner keeps it from query to query, so that a
 * hot path stops allocating after a while. */
struct sql_text {
    char *text;
    size_t length;
    size_t size;
};

void sql_clear(struct sql_text *sql);
void sql_free(struct sql_text *sql);

/* Appends as printf does, up to 511 bytes; only for numbers and text of our own. All of these abort
 * when memory runs out. */
void sql_printf(struct sql_text *sql, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Empties the text and then appends as sql_printf does. */
void sql_begin(struct sql_text *sql, const char *format, ...) __attribute__((format(printf, 2, 3)));

void sql_append(struct sql_text *sql, const char *text, size_t length);
void sql_number(struct sql_text *sql, uint64_t number);

/* Appends an identifier in quotes: a sku or key, [A-Za-z0-9._:-] only, which the service
 * has checked. Anything else is a programming error and aborts here, before it can be SQL. */
void sql_identifier(struct sql_text *sql, const char *identifier);

/* Appends text of our own, and behind it the identifier in quotes. */
void sql_text_identifier(struct sql_text *sql, const char *text, const char *identifier);

/* Appends a user id in quotes, which the service has checked; what is none aborts here as well. The
 * connection's sql_mode has backslashes as escapes (db_connection.c). */
void sql_user_id(struct sql_text *sql, const char *user_id);

#endif

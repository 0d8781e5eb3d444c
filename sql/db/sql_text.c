/* A growing SQL text. */
#include "sql/db/sql_text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "base/identifier.h"

void sql_clear(struct sql_text *sql)
{
    sql->length = 0;
}

void sql_free(struct sql_text *sql)
{
    free(sql->text);
    *sql = (struct sql_text){0};
}

static char *sql_reserve(struct sql_text *sql, size_t more)
{
    if (sql->length + more > sql->size) {
        size_t size = (sql->length + more) * 2 + 1024; /* doubled: soon it does not grow at all */
        char *text = realloc(sql->text, size);
        if (!text)
            abort();
        sql->text = text;
        sql->size = size;
    }
    return sql->text + sql->length;
}

void sql_append(struct sql_text *sql, const char *text, size_t length)
{
    if (length == 0) /* a text that is empty so far has no memory */
        return;
    memcpy(sql_reserve(sql, length), text, length);
    sql->length += length;
}

static void append_formatted(struct sql_text *sql, const char *format, va_list args)
{
    char piece[512];
    int length = vsnprintf(piece, sizeof piece, format, args);
    assert(length >= 0 && (size_t)length < sizeof piece);
    sql_append(sql, piece, (size_t)length);
}

void sql_printf(struct sql_text *sql, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    append_formatted(sql, format, args);
    va_end(args);
}

void sql_begin(struct sql_text *sql, const char *format, ...)
{
    va_list args;
    sql_clear(sql);
    va_start(args, format);
    append_formatted(sql, format, args);
    va_end(args);
}

void sql_number(struct sql_text *sql, uint64_t number)
{
    char *digits = sql_reserve(sql, DECIMAL_DIGITS_MAX);
    sql->length += (size_t)(decimal_put(digits, number) - digits);
}

/* The last line of defence against injected SQL: callers have checked their identifiers, and the
 * alphabet has neither quotes nor backslashes. */
void sql_identifier(struct sql_text *sql, const char *identifier)
{
    size_t length = strlen(identifier);
    for (size_t i = 0; i < length; i++)
        if (!identifier_alphabet[(unsigned char)identifier[i]])
            abort();
    sql_append(sql, "'", 1);
    sql_append(sql, identifier, length);
    sql_append(sql, "'", 1);
}

void sql_text_identifier(struct sql_text *sql, const char *text, const char *identifier)
{
    sql_append(sql, text, strlen(text));
    sql_identifier(sql, identifier);
}

/* A quote is doubled and so is a backslash: the text then cannot end early in either way in which a
 * server may take backslashes. */
void sql_user_id(struct sql_text *sql, const char *user_id)
{
    size_t length = strlen(user_id);
    if (!user_id_valid(user_id, length))
        abort();
    sql_append(sql, "'", 1);
    for (size_t plain; length > 0; user_id += plain, length -= plain) {
        plain = strcspn(user_id, "'\\");
        sql_append(sql, user_id, plain);
        if (plain == length)
            break;
        sql_append(sql, (char[]){user_id[plain], user_id[plain]}, 2);
        plain++;
    }
    sql_append(sql, "'", 1);
}

/* A growing SQL text. */
#include "sql/db/sql_text.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

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
        char *text = memory_must(realloc(sql->text, size));
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

/* The last line of defence against injected SQL. A quote is doubled and so is a backslash: the text
 * then cannot end early in either way in which a server may take backslashes. */
void sql_append_value(struct sql_text *sql, const char *text)
{
    char *out = sql_reserve(sql, 2 * strlen(text)), *at = out;
    for (; *text; text++) {
        if (*text <= ' ' || *text > '~')
            abort();
        if (*text == '\'' || *text == '\\')
            *at++ = *text;
        *at++ = *text;
    }
    sql->length += (size_t)(at - out);
}

static void append_value(struct sql_text *sql, const char *text)
{
    if (!text) {
        sql_append(sql, "NULL", 4);
        return;
    }
    sql_append(sql, "'", 1);
    sql_append_value(sql, text);
    sql_append(sql, "'", 1);
}

static void append_number(struct sql_text *sql, uint64_t number, bool negative)
{
    if (negative)
        sql_append(sql, "-", 1);
    char *digits = sql_reserve(sql, DECIMAL_DIGITS_MAX);
    sql->length += (size_t)(decimal_put(digits, negative ? -number : number) - digits);
}

/* Appends what stands behind a % and returns where the format goes on. */
static const char *append_argument(struct sql_text *sql, const char *at, va_list *args)
{
    int number;
    const char *text;
    switch (*at) {
    case 's':
        append_value(sql, va_arg(*args, const char *));
        return at + 1;
    case '-':
        text = va_arg(*args, const char *);
        sql_append(sql, text, strlen(text));
        return at + 2;
    case 'd':
        number = va_arg(*args, int);
        append_number(sql, (uint64_t)number, number < 0);
        return at + 1;
    case 'u':
        append_number(sql, va_arg(*args, unsigned), false);
        return at + 1;
    case 'j':
        append_number(sql, va_arg(*args, uintmax_t), false);
        return at + 2;
    case '%':
        sql_append(sql, "%", 1);
        return at + 1;
    default:
        abort();
    }
}

void sql_vprintf(struct sql_text *sql, const char *format, va_list *args)
{
    while (*format) {
        size_t plain = strcspn(format, "%");
        sql_append(sql, format, plain);
        format += plain;
        if (*format)
            format = append_argument(sql, format + 1, args);
    }
}

void sql_printf(struct sql_text *sql, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    sql_vprintf(sql, format, &args);
    va_end(args);
}

void sql_begin(struct sql_text *sql, const char *format, ...)
{
    va_list args;
    sql_clear(sql);
    va_start(args, format);
    sql_vprintf(sql, format, &args);
    va_end(args);
}

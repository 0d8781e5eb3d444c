/* A text in Prometheus' format, written piece by piece into a buffer. */
#include "service/metrics/metrics_text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>

void metrics_text_add(struct metrics_text *text, const char *format, ...)
{
    bool full = text->length >= text->size;
    char *end = full ? NULL : text->buffer + text->length;
    va_list arguments;
    va_start(arguments, format);
    int written = vsnprintf(end, full ? 0 : text->size - text->length, format, arguments);
    va_end(arguments);
    assert(written >= 0);
    text->length += (size_t)written;
}

void metrics_text_head(struct metrics_text *text, const char *name, const char *type,
                       const char *help)
{
    metrics_text_add(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void metrics_text_label(struct metrics_text *text, const char *value)
{
    metrics_text_add(text, "\"");
    for (; *value != '\0'; value++)
        if (*value == '\n')
            metrics_text_add(text, "\\n");
        else
            metrics_text_add(text, "%s%c", *value == '\\' || *value == '"' ? "\\" : "", *value);
    metrics_text_add(text, "\"");
}

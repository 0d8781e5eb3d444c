/* A text in Prometheus' format, written piece by piece into a buffer. */
#ifndef SECKILL_SERVICE_METRICS_METRICS_TEXT_H
#define SECKILL_SERVICE_METRICS_METRICS_TEXT_H

#include <stddef.h>

/* Its owner sets buffer and size; a text belongs to one thread. When the buffer is full it is cut,
 * ends with NUL all the same, and goes on counting its length. */
struct metrics_text {
    char *buffer;
    size_t size;
    size_t length;
};

/* Appends as printf does. */
void metrics_text_add(struct metrics_text *text, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends the HELP and TYPE lines that stand above a family's first series. */
void metrics_text_head(struct metrics_text *text, const char *name, const char *type,
                       const char *help);

/* Appends what the service put in quotes as a label's value: a backslash, a quote and a line feed
 * are escaped. */
void metrics_text_label(struct metrics_text *text, const char *value);

#endif

/* Compares payments with what the payment provider exports, for audit --payments. */
#ifndef SECKILL_CTL_COMMANDS_PAYMENT_FILE_H
#define SECKILL_CTL_COMMANDS_PAYMENT_FILE_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "ctl/context.h"

struct payment_file {
    const struct context *context;
    json_t *lines;       /* by its name, "REF of order ID", the line of a payment, from 1 on */
    json_t *unknown;     /* those of `lines` that the service has not told of */
    json_t *faults;      /* sentences: payments that are there twice */
    json_t *differences; /* sentences: what the service has told otherwise */
    size_t agreed;       /* lines that are as the service has told */
};

/* Reads the columns payment_ref and order_id of a file, as csv_read does. One ref may pay several
 * orders, with a line for each. With --pod the orders of other pods are left out. False after a
 * message. The caller frees the file in any case. */
bool payment_file_read(struct payment_file *file, const struct context *context, const char *path);
void payment_file_free(struct payment_file *file);

/* Begins to compare, anew. */
void payment_file_begin(struct payment_file *file);

/* Compares with one payment as the service tells it. `due`: it must be in the file. False if it is
 * of another form. */
bool payment_file_compare(struct payment_file *file, const json_t *payment, bool due);

/* Ends a comparison: the service has told all payments. */
void payment_file_end(struct payment_file *file);

#endif

/* Reads sales from the service, and describes them for readers. */
#ifndef SECKILL_CTL_COMMANDS_SALE_H
#define SECKILL_CTL_COMMANDS_SALE_H

#include <jansson.h>

#include "ctl/context.h"
#include "ctl/http.h"

/* Returns the argument as a sku, for a path; NULL after a message. */
const char *sale_argument(const struct context *context, size_t number);

/* True if a text may be part of a path or query: [A-Za-z0-9._:-]{1,64}. False after a message that
 * calls it `what`. */
bool sale_identifier(const char *text, const char *what);

/* Sends GET /admin/stock/{sku}. EX_OK: the caller frees the reply, whose JSON is an object. Else
 * the exit status after a message. */
int sale_read(struct context *context, const char *sku, struct reply *reply_out);

/* Reads all sales, page by page, as a JSON array that the caller releases. Else the exit status. */
int sale_read_all(struct context *context, json_t **sales_out);

/* Returns "open", "paused", "not started", "ended", "sold out" or "counting", by the clock of this
 * machine. A constant text. */
const char *sale_state(const json_t *sale);

/* Prints the table of sales, and gives each its `state`. */
void sale_print(json_t *sales);

/* Gives a stock its `bar`: one character per segment, or per few, shows how much is left. Blocks if
 * the locale has UTF-8, else digits; a point is an empty segment. */
void sale_add_bar(json_t *stock);

#endif

/* Sales as the service shows them: read, and described for readers. */
#ifndef SECKILL_CTL_COMMANDS_SALE_H
#define SECKILL_CTL_COMMANDS_SALE_H

#include <jansson.h>

#include "ctl/context.h"
#include "ctl/http.h"
#include "ctl/output/table.h"

enum { BAR_SEGMENTS_MAX = 64, BAR_SIZE = BAR_SEGMENTS_MAX * 4 + 1 };

/* The argument as a sku, for a path; NULL after a message. */
const char *sale_argument(const struct context *context, size_t number);

/* Whether a text may be part of a path or query: [A-Za-z0-9._:-]{1,64}. False after a message that
 * names it by `what`. */
bool sale_identifier(const char *text, const char *what);

/* GET /admin/stock/{sku}. EX_OK: the caller frees the reply, whose JSON is an object. Else the exit
 * status after a message. */
int sale_read(struct context *context, const char *sku, struct reply *reply_out);

/* All sales, page by page, as a JSON array that the caller releases. Else the exit status. */
int sale_read_all(struct context *context, json_t **sales_out);

/* "open", "paused", "not started", "ended", "sold out" or "counting", by the clock of this machine.
 * A constant text. */
const char *sale_state(const json_t *sale);

/* The table of sales: its columns, and the row of one. */
void sale_table_begin(struct table *table_out);
void sale_table_add(struct table *table, const json_t *sale);

/* One character for each segment, or for a few of them where there are many: how much of it is
 * left. Blocks where the locale has UTF-8, else digits; a point is an empty segment. */
void sale_bar(const json_t *stock, char bar_out[BAR_SIZE]);

#endif

/* Writes and reads the lines of events. */
#include "sql/events/event_line.h"

#include <string.h>

#include "base/text.h"
#include "sql/ledger/ledger_query.h"

static const struct {
    char letter;
    const char *name;
} types[LEDGER_EVENT_TYPES] = {
#define ROW(id, letter, name) [LEDGER_EVENT_##id] = {letter, name},
    LEDGER_EVENTS(ROW)
#undef ROW
};

const char *ledger_event_name(enum ledger_event_type type)
{
    return types[type].name;
}

enum ledger_event_type ledger_event_type_of(const char *name)
{
    int type = 0;
    while (type < LEDGER_EVENT_TYPES && strcmp(types[type].name, name) != 0)
        type++;
    return (enum ledger_event_type)type;
}

/* ---- writing ---- */

#define BATCH_INSERT "INSERT INTO event_batch(written_at,body,events)VALUES(UTC_TIMESTAMP(3),"

static bool is_like(const struct ledger_order *order, const struct ledger_order *before)
{
    return order->round == before->round && order->expires_ms == before->expires_ms &&
           strcmp(order->sku, before->sku) == 0;
}

void event_text_accepted(struct ledger *ledger, struct sql_text *sql,
                         const struct ledger_order *const *orders, size_t count)
{
    uint64_t last_id = 0;
    if (!ledger->events || count == 0)
        return;
    sql_printf(sql, BATCH_INSERT "'");
    for (size_t i = 0; i < count; i++) {
        const struct ledger_order *order = orders[i];
        bool less = order->order_id < last_id;
        sql_append(sql, "\n", i > 0);
        if (i == 0 || !is_like(order, orders[i - 1]))
            sql_printf(sql, "= %-s %u %ju\n", order->sku, order->round,
                       (uintmax_t)order->expires_ms);
        sql_printf(sql, less ? "a -%ju %u " : "a %ju %u ",
                   less ? last_id - order->order_id : order->order_id - last_id, order->qty);
        sql_append_value(sql, order->user_id);
        last_id = order->order_id;
    }
    sql_printf(sql, "',%ju);", (uintmax_t)count);
}

/* The statement up to its list of orders. */
static void text_list(struct sql_text *sql, enum ledger_event_type type, bool by_name)
{
    const char letter[] = {types[type].letter, '\0'};
    sql_printf(sql,
               BATCH_INSERT "(SELECT GROUP_CONCAT(CONCAT_WS(' ',%s,o.order_id,%-s,o.qty,"
                            "COALESCE(" LEDGER_MS_OF("o.expires_at") ",0),o.user_id,o.sku,o.round",
               letter, type == LEDGER_EVENT_REFUND_DUE ? "0" : "COALESCE(o.version,1)");
    if (type == LEDGER_EVENT_REFUND_DUE || type == LEDGER_EVENT_UNPAID)
        sql_printf(sql,
                   ",p.payment_ref)SEPARATOR '\\n')FROM payment p FORCE INDEX(PRIMARY)"
                   "JOIN orders o ON o.order_id=p.order_id WHERE(p.order_id,p.payment_ref)IN(");
    else if (by_name)
        sql_printf(sql, ",p.payment_ref)SEPARATOR '\\n')FROM orders o FORCE INDEX(PRIMARY)"
                        "LEFT JOIN payment p ON p.order_id=o.order_id AND p.state='taken' "
                        "WHERE o.order_id IN(");
    else
        sql_printf(sql, ")SEPARATOR '\\n')FROM orders o FORCE INDEX(PRIMARY)WHERE o.order_id IN(");
}

void event_list_add(struct event_list *list, uint64_t order_id, const char *payment_ref)
{
    struct sql_text *sql = &list->ledger->sql;
    if (!list->ledger->events)
        return;
    if (list->count == 0)
        text_list(sql, list->type, list->by_name);
    sql_append(sql, ",", list->count++ > 0);
    if (list->type == LEDGER_EVENT_REFUND_DUE || list->type == LEDGER_EVENT_UNPAID)
        sql_printf(sql, "(%ju,%s)", order_id, payment_ref);
    else
        sql_printf(sql, "%ju", order_id);
}

void event_list_end(const struct event_list *list)
{
    if (list->count > 0)
        sql_printf(&list->ledger->sql, ")),%ju);", (uintmax_t)list->count);
}

void event_text_sale(struct sql_text *sql, const struct ledger_event *event)
{
    const char letter[] = {types[event->type].letter, '\0'};
    sql_printf(sql, "%-s %-s %u %u %u %u %d", letter, event->sku, event->round, event->total,
               event->left, event->settings_version, event->paused);
}

/* ---- reading ---- */

/* The rest of a line, and the word before it. */
struct line {
    const char *at, *end;
    const char *word;
    size_t length; /* of the word */
    bool bad;
};

/* Goes on to the next word, which ends at a blank; "" sets `bad`. */
static void next_word(struct line *line)
{
    const char *blank = memchr(line->at, ' ', (size_t)(line->end - line->at));
    line->word = line->at;
    line->length = (size_t)((blank ? blank : line->end) - line->word);
    line->at = blank ? blank + 1 : line->end;
    line->bad |= line->length == 0;
}

static uint64_t next_number(struct line *line, uint64_t max)
{
    uint64_t number = 0;
    next_word(line);
    line->bad |= line->length >= DECIMAL_DIGITS_MAX;
    for (size_t i = 0; i < line->length && !line->bad; i++) {
        line->bad = line->word[i] < '0' || line->word[i] > '9';
        number = number * 10 + (uint64_t)(line->word[i] - '0');
    }
    line->bad |= number > max;
    return line->bad ? 0 : number;
}

static void next_sku(struct line *line, struct ledger_event *event)
{
    next_word(line);
    line->bad |= !identifier_copy(line->word, line->length, event->sku);
}

static void next_text(struct line *line, char text_out[USER_ID_SIZE])
{
    next_word(line);
    line->bad |= !user_id_copy(line->word, line->length, text_out);
}

/* What the accepted orders behind it share. */
static void read_shared(struct line *line, struct ledger_event *event)
{
    next_sku(line, event);
    event->round = (uint32_t)next_number(line, LEDGER_ROUND_MAX);
    event->expires_ms = (int64_t)next_number(line, INT64_MAX / 1000000);
}

static void read_accepted(struct line *line, struct ledger_event *event)
{
    bool less = line->at < line->end && *line->at == '-';
    line->at += less;
    uint64_t step = next_number(line, UINT64_MAX);
    event->order_id += less ? -step : step;
    event->version = 1;
    event->qty = (uint32_t)next_number(line, LEDGER_TOTAL_MAX);
    next_text(line, event->user_id);
    event->payment_ref[0] = '\0';
    line->bad |= event->sku[0] == '\0';
}

static void read_order(struct line *line, struct ledger_event *event)
{
    event->order_id = next_number(line, UINT64_MAX);
    event->version = (uint32_t)next_number(line, UINT32_MAX);
    event->qty = (uint32_t)next_number(line, LEDGER_TOTAL_MAX);
    event->expires_ms = (int64_t)next_number(line, INT64_MAX / 1000000);
    next_text(line, event->user_id);
    next_sku(line, event);
    event->round = (uint32_t)next_number(line, LEDGER_ROUND_MAX);
    event->payment_ref[0] = '\0';
    if (line->at < line->end)
        next_text(line, event->payment_ref);
}

static void read_sale(struct line *line, struct ledger_event *event)
{
    next_sku(line, event);
    event->round = (uint32_t)next_number(line, LEDGER_ROUND_MAX);
    event->total = (uint32_t)next_number(line, LEDGER_TOTAL_MAX);
    event->left = (uint32_t)next_number(line, LEDGER_TOTAL_MAX);
    event->settings_version = (uint32_t)next_number(line, UINT32_MAX);
    event->paused = next_number(line, 1) != 0;
}

static enum ledger_event_type type_of_letter(char letter)
{
    int type = 0;
    while (type < LEDGER_EVENT_TYPES && types[type].letter != letter)
        type++;
    return (enum ledger_event_type)type;
}

/* Cuts the next line off, and returns its first letter; 0: it does not begin with a single one. */
static char next_line(const struct ledger_event_batch *batch, const char **at,
                      struct line *line_out)
{
    const char *end = batch->body + batch->length;
    const char *newline = memchr(*at, '\n', (size_t)(end - *at));
    *line_out = (struct line){.at = *at, .end = newline ? newline : end};
    next_word(line_out);
    *at = newline ? newline + 1 : NULL;
    return line_out->length == 1 ? *line_out->word : '\0';
}

bool ledger_event_next(const struct ledger_event_batch *batch, const char **at,
                       struct ledger_event *event)
{
    struct line line;
    if (!*at || *at >= batch->body + batch->length)
        return false;
    char letter = next_line(batch, at, &line);
    if (letter == '=' && *at) {
        read_shared(&line, event);
        if (line.bad || line.at != line.end)
            return false;
        letter = next_line(batch, at, &line);
    }
    event->type = type_of_letter(letter);
    if (event->type == LEDGER_EVENT_TYPES)
        return false;
    if (event->type == LEDGER_EVENT_ACCEPTED)
        read_accepted(&line, event);
    else if (ledger_event_of_order(event->type))
        read_order(&line, event);
    else
        read_sale(&line, event);
    return !line.bad && line.at == line.end;
}

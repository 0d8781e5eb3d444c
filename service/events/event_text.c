/* Writes events as CloudEvents 1.0 in JSON. */
#include "service/events/event_text.h"

#include <string.h>

#include "service/request/order_answer.h"

void event_writer_init(struct event_writer *writer, unsigned pod, int64_t written_ms)
{
    writer->pod = pod;
    writer->expires_ms = 0;
    ledger_time_format(written_ms, writer->time);
}

static char *put_order(char *at, struct event_writer *writer, const struct ledger_event *event)
{
    at = order_put_number(at, ",\"subject\":\"", event->order_id);
    at = stpcpy(stpcpy(at, "\",\"sku\":\""), event->sku);
    at = stpcpy(at, "\"");
    if (event->version != 0)
        at = order_put_number(at, ",\"version\":", event->version);
    at = order_put_escaped(stpcpy(at, ",\"data\":{\"user_id\":\""), event->user_id);
    at = order_put_number(at, "\",\"qty\":", event->qty);
    at = order_put_number(at, ",\"round\":", event->round);
    if (event->expires_ms != 0) {
        if (event->expires_ms != writer->expires_ms)
            ledger_time_format(event->expires_ms, writer->expires_at);
        writer->expires_ms = event->expires_ms;
        at = stpcpy(stpcpy(stpcpy(at, ",\"expires_at\":\""), writer->expires_at), "\"");
    }
    if (event->payment_ref[0] != '\0') {
        at = order_put_escaped(stpcpy(at, ",\"payment_ref\":\""), event->payment_ref);
        at = stpcpy(at, "\"");
    }
    return stpcpy(at, "}}");
}

static char *put_sale(char *at, const struct ledger_event *event)
{
    at = stpcpy(stpcpy(at, ",\"subject\":\""), event->sku);
    at = stpcpy(stpcpy(at, "\",\"sku\":\""), event->sku);
    if (event->round == 0)
        return stpcpy(at, "\",\"data\":{\"retired\":true}}");
    at = order_put_number(at, "\",\"data\":{\"round\":", event->round);
    at = order_put_number(at, ",\"total\":", event->total);
    at = order_put_number(at, ",\"available\":", event->left);
    at = order_put_number(at, ",\"settings_version\":", event->settings_version);
    return stpcpy(stpcpy(at, ",\"paused\":"), event->paused ? "true}}" : "false}}");
}

char *event_text(char *out, struct event_writer *writer, const struct ledger_event *event,
                 uint64_t position)
{
    char *at = order_put_number(out, "{\"specversion\":\"1.0\",\"id\":\"", position);
    at = order_put_number(at, "\",\"source\":\"/seckill/", writer->pod);
    at = stpcpy(stpcpy(at, "\",\"type\":\""), ledger_event_name(event->type));
    at = stpcpy(stpcpy(at, "\",\"time\":\""), writer->time);
    at = stpcpy(at, "\"");
    return ledger_event_of_order(event->type) ? put_order(at, writer, event) : put_sale(at, event);
}

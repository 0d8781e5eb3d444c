/* GET /admin/orders.csv: all orders, or those of a sku or state, as a stream of lines. */
#include <stdlib.h>

#include "service/workers/calls.h"
#include "service/calls/call.h"
#include "service/calls/listing.h"
#include "service/http/stream.h"

static const char head[] = "order_id,sku,user_id,qty,segment,status,created_at,expires_at\r\n";

/* RFC 4180. No field needs quotes: neither our words nor numbers and times have commas in them. */
static void write_lines(struct stream *stream, const struct ledger_listed *orders, size_t count)
{
    for (size_t i = 0; i < count; i++)
        stream_printf(stream, "%llu,%s,%s,%u,%u,%s,%s,%s\r\n",
                      (unsigned long long)orders[i].order_id, orders[i].sku, orders[i].user_id,
                      orders[i].qty, orders[i].segment, orders[i].status, orders[i].created_at,
                      orders[i].expires_at);
}

/* One page; it may be empty, when the filter lets little through. */
static void work_csv(struct desk *desk, struct request *request)
{
    struct stream *stream = request->stream;
    struct ledger_listed *orders = calloc(request->limit, sizeof *orders);
    bool first = !request->answer.stream;
    size_t count = 0;
    if (!orders)
        abort();
    bool read = listing_fetch(desk, request, ledger_orders_scan, orders, &count);
    stream_clear(stream);
    stream->ended = request->after == 0;
    stream->failed = !read;
    if (read && first)
        answer_stream(&request->answer, 200, "text/csv; charset=utf-8; header=present");
    else if (!read && first)
        answer_problem(&request->answer, PROBLEM_UNAVAILABLE);
    if (first)
        stream_printf(stream, "%s", head);
    write_lines(stream, orders, count);
    free(orders);
}

enum start_result handle_admin_csv(struct service *service, struct request *request,
                                   const struct call *call)
{
    if (!listing_read(request, call, LISTING_WHOLE))
        return START_ANSWERED;
    request->limit = LISTING_LIMIT_MAX;
    request->stream = stream_open(&service->streams);
    if (!request->stream) {
        answer_detail(&request->answer, PROBLEM_OVERLOADED,
                      "Too many listings are being read; try again later.");
        return START_ANSWERED;
    }
    request->work = work_csv;
    return START_TO_DESK;
}

/* GET /events: the feed of what has happened to orders and sales. */
#include "service/calls/calls.h"

#include <string.h>

bool call_events_on(struct request *request, const struct call *call)
{
    bool on = call->service->config.events_retention_h > 0;
    if (!on)
        answer_problem(&request->answer, PROBLEM_EVENTS_OFF);
    return on;
}

/* A cursor is the position of the last event that was read and, behind a dot, its mark. */
static bool copy_cursor(const char *text, size_t length, char *cursor_out)
{
    struct feed_cursor *cursor = (void *)cursor_out;
    size_t digits = strcspn(text, ".");
    *cursor = (struct feed_cursor){.position = FEED_FROM_END};
    if (strcmp(text, "end") == 0)
        return true;
    return call_read_number(text, digits, INT64_MAX - FEED_LIMIT_MAX, &cursor->position) &&
           (digits == length ||
            call_read_number(text + digits + 1, length - digits - 1, INT64_MAX, &cursor->mark));
}

static const struct call_body events_query = {
    .fields =
        {
            {"after", FIELD_TEXT, offsetof(struct request_call, cursor),
             "after must be a cursor, as next gives it, or end.", .copy = copy_cursor},
            LIMIT_FIELD,
            {"wait_s", FIELD_DIGITS, offsetof(struct request_call, wait_s),
             "wait_s must be a whole number from 0 to 30.", .max = FEED_WAIT_S_MAX},
        },
    .other = "There is a query parameter other than after, limit and wait_s.",
};

enum call_start call_events(struct request *request, const struct call *call)
{
    enum { AFTER = 1, LIMIT = 2 }; /* bits of the fields found */
    struct request_call *asked = &request->call;
    asked->wait_s = 0;
    if (!call_read_query(request, call, &events_query))
        return START_ANSWERED;
    if (!(asked->found & AFTER))
        asked->cursor.position = FEED_FROM_OLDEST;
    if (!(asked->found & LIMIT))
        asked->limit = FEED_LIMIT_MAX;
    return call_events_on(request, call) ? START_TO_CALL_WORKER : START_ANSWERED;
}

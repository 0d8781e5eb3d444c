/* The ids of a request, and the W3C trace that it is part of. */
#include "service/request/trace.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

enum {
    VERSION_DIGITS = 2,
    TRACE_DIGITS = TRACE_ID_SIZE - 1,
    SPAN_DIGITS = 16,
    FLAGS_DIGITS = 2,
    TRACE_AT = VERSION_DIGITS + 1, /* offsets in a traceparent; '-' precedes each part */
    SPAN_AT = TRACE_AT + TRACE_DIGITS + 1,
    FLAGS_AT = SPAN_AT + SPAN_DIGITS + 1,
    FLAGS_KNOWN = 0x03, /* sampled, random: they hold for the whole trace */
};

/* why_per_thread: every request needs a number, so making one must cost neither a lock nor a system
 * call. splitmix64 visits every number once before it repeats; each thread starts at random. */
static uint64_t next_number(void)
{
    static _Thread_local uint64_t state;
    if (state == 0 && getrandom(&state, sizeof state, 0) != sizeof state)
        abort();
    uint64_t z = (state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    z ^= z >> 31;
    return z != 0 ? z : 1; /* a span of zeros is not valid */
}

static void copy_id(char out[REQUEST_ID_SIZE], const char *text)
{
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "._:/+@-";
    size_t length = strspn(text, allowed);
    out[0] = '\0';
    if (length < REQUEST_ID_SIZE && text[length] == '\0')
        memcpy(out, text, length + 1);
}

/* Four parts of lower-case hexadecimal digits, with ids that are not zero. A later version may have
 * more parts behind the ones of 00; ff is no version. */
static bool is_traceparent(const char *text)
{
    static const size_t digits[] = {VERSION_DIGITS, TRACE_DIGITS, SPAN_DIGITS, FLAGS_DIGITS};
    const char *at = text;
    for (size_t i = 0; i < 4; i++) {
        if ((i > 0 && *at++ != '-') || strspn(at, "0123456789abcdef") != digits[i])
            return false;
        at += digits[i];
    }
    bool known = strncmp(text, "00", VERSION_DIGITS) == 0;
    return (*at == '\0' || (!known && *at == '-')) && strncmp(text, "ff", VERSION_DIGITS) != 0 &&
           strspn(text + TRACE_AT, "0") < TRACE_DIGITS && strspn(text + SPAN_AT, "0") < SPAN_DIGITS;
}

void trace_begin(struct trace *trace, const char *request_id, const char *traceparent)
{
    trace->number = next_number();
    trace->given[0] = trace->id[0] = '\0';
    trace->shown = trace->sampled = false;
    if (request_id)
        copy_id(trace->given, request_id);
    if (!traceparent || !is_traceparent(traceparent))
        return;
    memcpy(trace->id, traceparent + TRACE_AT, TRACE_DIGITS);
    trace->id[TRACE_DIGITS] = '\0';
    char flags[FLAGS_DIGITS + 1] = {traceparent[FLAGS_AT], traceparent[FLAGS_AT + 1]};
    trace->flags = (unsigned char)(strtoul(flags, NULL, 16) & FLAGS_KNOWN);
}

const char *trace_request_id(const struct trace *trace, char buffer[REQUEST_ID_SIZE])
{
    if (trace->given[0] != '\0')
        return trace->given;
    snprintf(buffer, REQUEST_ID_SIZE, "%016llx", (unsigned long long)trace->number);
    return buffer;
}

bool trace_parent(const struct trace *trace, char text_out[TRACEPARENT_SIZE])
{
    if (trace->id[0] == '\0')
        return false;
    snprintf(text_out, TRACEPARENT_SIZE, "00-%s-%016llx-%02x", trace->id,
             (unsigned long long)trace->number, trace->flags);
    return true;
}

bool trace_named(const struct trace *trace)
{
    return trace->given[0] != '\0' || trace->id[0] != '\0';
}

const char *trace_log(const struct trace *trace, char buffer[TRACE_LOG_SIZE])
{
    char made[REQUEST_ID_SIZE];
    snprintf(buffer, TRACE_LOG_SIZE, " request_id=%s%s%s", trace_request_id(trace, made),
             trace->id[0] != '\0' ? " trace_id=" : "", trace->id);
    return buffer;
}

/* The log: one event a line, as logfmt or JSON, on standard error. */
#include "service/log/log.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "service/log/log_json.h"
#include "service/log/log_sink.h"
#include "service/metrics/metrics.h"

#define LIMITS 128 /* kinds of event with a limit of their own; further kinds share the last one */
#define TRUNCATED " truncated=true"

static const char *const level_names[] = {"debug", "info", "warn", "error"};
/* Those of syslog, from LOG_DEBUG on. */
static const char *const priorities_text[] = {"<7>", "<6>", "<4>", "<3>"};
enum { PRIORITY_LENGTH = sizeof "<6>" - 1 };

/* How often one event was written in its present second. why_limited: a server that is down fails
 * every batch of every worker; the log must neither fill the disk nor slow the workers. */
struct limit {
    enum log_level level;
    const char *event;  /* NULL: free */
    const char *server; /* NULL unless the event is a server's failure */
    time_t second;
    unsigned written;
    unsigned long suppressed;
};

static _Atomic unsigned long dropped; /* lines that nobody took, and nobody was told of yet */
static _Atomic enum log_level log_level = LOG_INFO;
static _Atomic enum log_level level_after = LOG_INFO; /* of log_setup: when level_until_ns comes */
static _Atomic int64_t level_until_ns;                /* monotonic; 0: log_level has no end */
static _Atomic enum log_format log_format = LOG_LOGFMT;
static _Atomic bool log_priorities;
/* Guards `limits`. Never held in a write, which may block for as long as the log's reader likes. */
static pthread_mutex_t limits_mutex = PTHREAD_MUTEX_INITIALIZER;
static struct limit limits[LIMITS];

void log_setup(enum log_level level, int fd)
{
    assert(level <= LOG_ERROR && fd >= 0);
    level_until_ns = 0;
    level_after = level;
    log_level = level;
    log_sink_open(fd);
}

void log_style(enum log_format format, bool priorities)
{
    log_format = format;
    log_priorities = priorities;
}

void log_level_set(enum log_level level, unsigned for_s)
{
    assert(level <= LOG_ERROR);
    level_until_ns = 0;
    log_level = level;
    if (for_s > 0)
        level_until_ns = clock_now_ns() + for_s * CLOCK_NS_PER_S;
}

/* Takes the level of log_setup again when that is due. */
static void end_level(void)
{
    int64_t until_ns = level_until_ns;
    if (until_ns != 0 && clock_now_ns() >= until_ns &&
        atomic_compare_exchange_strong(&level_until_ns, &until_ns, 0))
        log_level = level_after;
}

enum log_level log_level_now(unsigned *left_s_out)
{
    end_level();
    int64_t until_ns = level_until_ns, left_ns = until_ns - clock_now_ns();
    *left_s_out = until_ns == 0 ? 0 : left_ns > 0 ? (unsigned)(left_ns / CLOCK_NS_PER_S) + 1 : 1;
    return log_level;
}

const char *log_level_name(enum log_level level)
{
    assert(level <= LOG_ERROR);
    return level_names[level];
}

bool log_level_parse(const char *text, enum log_level *level_out)
{
    for (size_t i = 0; i < sizeof level_names / sizeof *level_names; i++) {
        if (strcmp(text, level_names[i]) == 0) {
            *level_out = (enum log_level)i;
            return true;
        }
    }
    *level_out = LOG_INFO;
    return false;
}

bool log_enabled(enum log_level level)
{
    if (level_until_ns != 0)
        end_level();
    return level >= log_level;
}

/* A line that is being built, as logfmt. A text that does not fit is cut and noted. */
struct line {
    char text[LOG_LINE_MAX];
    size_t length;
    bool cut;
    enum log_level level;
};

static void line_add(struct line *line, const char *format, va_list arguments)
{
    /* Room for the priority and the end of the line; the NUL of TRUNCATED is the newline's. */
    size_t room = sizeof line->text - PRIORITY_LENGTH - sizeof TRUNCATED - line->length;
    int wanted = vsnprintf(line->text + line->length, room, format, arguments);
    if (wanted < 0)
        return;
    line->cut = line->cut || (size_t)wanted >= room;
    line->length += (size_t)wanted < room ? (size_t)wanted : room - 1;
}

static void __attribute__((format(printf, 2, 3)))
line_print(struct line *line, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    line_add(line, format, arguments);
    va_end(arguments);
}

static void line_begin(struct line *line, const struct timespec *now, enum log_level level,
                       const char *event)
{
    struct tm utc;
    gmtime_r(&now->tv_sec, &utc);
    char second[sizeof "2026-11-20T21:30:00"];
    if (strftime(second, sizeof second, "%Y-%m-%dT%H:%M:%S", &utc) == 0)
        second[0] = '\0';
    line->length = 0;
    line->cut = false;
    line->level = level;
    line_print(line, "ts=%s.%03dZ level=%s event=%s", second, (int)(now->tv_nsec / 1000000),
               level_names[level], event);
}

static bool is_control(char c)
{
    return (unsigned char)c < ' ' || c == 0x7f;
}

/* A text from outside must not begin a line of its own, or steer a terminal. */
static size_t write_logfmt(const struct line *line, char *out)
{
    size_t length = line->length;
    for (size_t i = 0; i < length; i++)
        out[i] = is_control(line->text[i]) ? ' ' : line->text[i];
    if (!line->cut)
        return length;
    memcpy(out + length, TRUNCATED, sizeof TRUNCATED - 1);
    return length + sizeof TRUNCATED - 1;
}

/* One write, so that lines of several threads and processes do not mix. False when it is lost. */
static bool line_write(const struct line *line)
{
    char out[LOG_LINE_MAX];
    size_t length = 0;
    if (log_priorities) {
        memcpy(out, priorities_text[line->level], PRIORITY_LENGTH);
        length = PRIORITY_LENGTH;
    }
    if (log_format == LOG_JSON)
        length +=
            log_json(line->text, line->length, line->cut, out + length, sizeof out - length - 1);
    else
        length += write_logfmt(line, out + length);
    out[length++] = '\n';
    return log_sink_write(out, length);
}

static void note_dropped(unsigned long lines)
{
    atomic_fetch_add(&dropped, lines);
    metrics_add(METRIC_LOG_LINES_DROPPED, lines);
}

static void line_send(const struct line *line)
{
    if (!line_write(line))
        note_dropped(1);
}

static bool is_same(const char *one, const char *other)
{
    return one == other || (one && other && strcmp(one, other) == 0);
}

/* With limits_mutex held. Compares the texts, not their addresses: one event may be logged from
 * several files. */
static struct limit *limit_of(enum log_level level, const char *event, const char *server)
{
    size_t i = 0;
    while (i < LIMITS - 1 && limits[i].event &&
           (limits[i].level != level || strcmp(limits[i].event, event) != 0 ||
            !is_same(limits[i].server, server)))
        i++;
    if (!limits[i].event)
        limits[i] = (struct limit){.level = level, .event = event, .server = server};
    return &limits[i];
}

/* Whether the event may be written now; if so, how many were suppressed before it. */
static bool admit(enum log_level level, const char *event, const char *server, time_t second,
                  unsigned long *suppressed_out)
{
    unsigned max = server ? 1 : LOG_EVENT_PER_SECOND;
    *suppressed_out = 0;
    pthread_mutex_lock(&limits_mutex);
    struct limit *limit = limit_of(level, event, server);
    if (limit->second != second) {
        limit->second = second;
        limit->written = 0;
    }
    bool admitted = limit->written < max;
    if (admitted) {
        limit->written++;
        *suppressed_out = limit->suppressed;
        limit->suppressed = 0;
    } else {
        limit->suppressed++;
    }
    pthread_mutex_unlock(&limits_mutex);
    return admitted;
}

/* Takes one due count out of the table. A count is due when its second is over, with `all` at
 * once. */
static bool take_due(time_t second, bool all, struct limit *due_out)
{
    bool found = false;
    pthread_mutex_lock(&limits_mutex);
    for (size_t i = 0; i < LIMITS && limits[i].event && !found; i++) {
        if (limits[i].suppressed > 0 && (all || limits[i].second != second)) {
            *due_out = limits[i];
            limits[i].suppressed = 0;
            found = true;
        }
    }
    pthread_mutex_unlock(&limits_mutex);
    return found;
}

static void write_due(const struct timespec *now, bool all)
{
    struct limit due;
    while (take_due(now->tv_sec, all, &due)) {
        struct line line;
        line_begin(&line, now, due.level, due.event);
        if (due.server)
            line_print(&line, " server=%s", due.server);
        line_print(&line, " suppressed=%lu", due.suppressed);
        line_send(&line);
    }
}

/* The line is lost as well while the log's reader stands still; then the count waits on. */
static void write_dropped(const struct timespec *now)
{
    unsigned long lost = log_sink_lost();
    if (lost > 0)
        note_dropped(lost);
    unsigned long lines = atomic_load_explicit(&dropped, memory_order_relaxed);
    if (lines == 0 || !atomic_compare_exchange_strong(&dropped, &lines, 0))
        return;
    struct line line;
    line_begin(&line, now, LOG_WARN, "log_lines_dropped");
    line_print(&line, " lines=%lu", lines);
    if (!line_write(&line))
        atomic_fetch_add(&dropped, lines);
}

static void __attribute__((format(printf, 5, 0)))
write_event(const struct timespec *now, enum log_level level, const char *event, const char *server,
            const char *format, va_list arguments, unsigned long suppressed)
{
    struct line line;
    line_begin(&line, now, level, event);
    if (server)
        line_print(&line, " server=%s", server);
    if (suppressed > 0)
        line_print(&line, " suppressed=%lu", suppressed);
    if (format && format[0]) {
        line_print(&line, " ");
        line_add(&line, format, arguments);
    }
    line_send(&line);
}

static void __attribute__((format(printf, 4, 0)))
log_line(enum log_level level, const char *event, const char *server, const char *format,
         va_list arguments)
{
    int saved_errno = errno; /* callers log between a failed call and their look at errno */
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    unsigned long suppressed;
    write_dropped(&now);
    if (admit(level, event, server, now.tv_sec, &suppressed))
        write_event(&now, level, event, server, format, arguments, suppressed);
    write_due(&now, false);
    errno = saved_errno;
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    va_list arguments;
    if (!log_enabled(level))
        return;
    va_start(arguments, format);
    log_line(level, event, NULL, format, arguments);
    va_end(arguments);
}

void log_each(enum log_level level, const char *event, const char *format, ...)
{
    va_list arguments;
    struct timespec now;
    if (!log_enabled(level))
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    write_dropped(&now);
    va_start(arguments, format);
    write_event(&now, level, event, NULL, format, arguments, 0);
    va_end(arguments);
}

void log_failure(enum log_level level, const char *event, const char *server, const char *format,
                 ...)
{
    va_list arguments;
    if (!log_enabled(level))
        return;
    va_start(arguments, format);
    log_line(level, event, server, format, arguments);
    va_end(arguments);
}

void log_flush(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    write_dropped(&now);
    write_due(&now, true);
    log_sink_flush();
}

/* Whether logfmt takes the value as it is; an empty one would look like a missing one. */
static bool is_plain(const char *value)
{
    for (const char *at = value; *at; at++)
        if (is_control(*at) || *at == ' ' || *at == '"' || *at == '=' || *at == '\\')
            return false;
    return value[0] != '\0';
}

/* The letter that stands for c behind a backslash; 0 when c stands for itself. */
static char escape_of(char c)
{
    switch (c) {
    case '"':
    case '\\':
        return c;
    case '\n':
        return 'n';
    case '\r':
        return 'r';
    case '\t':
        return 't';
    default:
        return 0;
    }
}

const char *log_quote(const char *value, char *buffer, size_t size)
{
    if (!value)
        value = "";
    if (is_plain(value) && strlen(value) < size)
        return value;
    if (size < sizeof "\"\"")
        return "\"\"";
    size_t length = 0;
    buffer[length++] = '"';
    for (; *value; value++) {
        /* A character is written with its backslash or not at all, and there is room for the
         * closing quote: a cut value is still well formed. */
        char escape = escape_of(*value);
        if (length + (escape ? 2 : 1) + sizeof "\"" > size)
            break;
        if (escape)
            buffer[length++] = '\\';
        buffer[length++] = escape ? escape : is_control(*value) ? '?' : *value;
    }
    buffer[length++] = '"';
    buffer[length] = '\0';
    return buffer;
}

/* The log: one event a line, as logfmt or JSON, on standard error. */
#define _GNU_SOURCE /* mempcpy */
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
#include "service/log/log_sink.h"
#include "service/metrics/metrics.h"

#define LIMITS 128 /* kinds of event with their own limit; further kinds share the last */
#define TRUNCATED " truncated=true"
#define TRUNCATED_JSON ",\"truncated\":true}"
#define NO_CHARACTER "\xef\xbf\xbd" /* U+FFFD, replaces bytes that are not UTF-8 */

static const char *const level_names[] = {"debug", "info", "warn", "error"};
/* Syslog's priorities, from LOG_DEBUG on. */
static const char *const priorities_text[] = {"<7>", "<6>", "<4>", "<3>"};
enum { PRIORITY_LENGTH = sizeof "<6>" - 1 };

/* The number of lines of one event in its present second. why_limited: a server that is down fails
 * every batch of every worker; the log must neither fill the disk nor slow the workers. */
struct limit {
    enum log_level level;
    const char *event;  /* NULL: free */
    const char *server; /* NULL unless the event is a server's failure */
    time_t second;
    unsigned written;
    unsigned long suppressed;
};

static _Atomic unsigned long dropped; /* lost lines not yet reported */
static _Atomic enum log_level log_level = LOG_INFO;
static _Atomic enum log_level level_after = LOG_INFO; /* log_setup's, back at level_until_ns */
static _Atomic int64_t level_until_ns;                /* monotonic; 0: log_level has no end */
static _Atomic enum log_format log_format = LOG_LOGFMT;
static _Atomic bool log_priorities;
/* Guards `limits`. Never held in a write, which the log's reader may block. */
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

/* Restores log_setup's level when that is due. */
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

/* A line under construction, as logfmt. A text that does not fit is cut and noted. */
struct line {
    char text[LOG_LINE_MAX];
    size_t length;
    bool cut;
    enum log_level level;
};

static void line_add(struct line *line, const char *format, va_list arguments)
{
    /* Leaves room for the priority and the line's end; TRUNCATED's NUL counts for the newline. */
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
                       const char *event, const char *server, unsigned long suppressed)
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
    if (server)
        line_print(line, " server=%s", server);
    if (suppressed > 0)
        line_print(line, " suppressed=%lu", suppressed);
}

static bool is_control(char c)
{
    return (unsigned char)c < ' ' || c == 0x7f;
}

/* A text from outside must not start a line, or control a terminal. */
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

/* The value's end; NULL when a quoted value was cut. */
static const char *value_end(const char *value)
{
    bool quoted = *value == '"';
    size_t length = quoted;
    while (value[length] && value[length] != (quoted ? '"' : ' '))
        length += quoted && value[length] == '\\' && value[length + 1] ? 2 : 1;
    return quoted && !value[length] ? NULL : value + length + quoted;
}

/* True when JSON, and every reader's double, can represent the value exactly. */
static bool is_number(const char *value, const char *end)
{
    enum { DIGITS_MAX = 15 };
    static const char digits[] = "0123456789";
    value += *value == '-';
    size_t whole = strspn(value, digits);
    size_t part = value[whole] == '.' ? strspn(value + whole + 1, digits) : 0;
    size_t length = whole + (part > 0 ? 1 + part : 0);
    return whole > 0 && (whole == 1 || *value != '0') && value + length == end &&
           length <= DIGITS_MAX;
}

static bool is_among(const char *const *words, const char *text, size_t length)
{
    while (*words && (strlen(*words) != length || memcmp(*words, text, length) != 0))
        words++;
    return *words != NULL;
}

/* True when JSON shows the value without quotes. Some keys' values look like numbers only in some
 * lines: they are always texts, so that a key has one type. */
static bool is_bare(const char *key, size_t key_length, const char *value, const char *end)
{
    static const char *const text_keys[] = {"sku",     "request_id", "trace_id", "key",
                                            "error",   "doing",      "holder",   "address",
                                            "message", "file",       NULL};
    static const char *const words[] = {"true", "false", NULL};
    return !is_among(text_keys, key, key_length) &&
           (is_number(value, end) || is_among(words, value, (size_t)(end - value)));
}

/* Copies a key or an unquoted value, none of whose characters JSON escapes. */
static char *put_plain(char *out, const char *text, size_t length, bool quotes)
{
    if (quotes)
        *out++ = '"';
    for (size_t i = 0; i < length; i++)
        *out++ = is_control(text[i]) || strchr("\"\\", text[i]) || (text[i] & 0x80) ? '?' : text[i];
    if (quotes)
        *out++ = '"';
    return out;
}

/* Writes the line as a JSON object. log_quote has written outside values in JSON's form, so pairs
 * become members unchanged. A pair that was cut, or does not fit into `out`, is left out; `size`
 * has room for the first pairs of every line. */
static size_t write_json(const struct line *line, char *out, size_t size)
{
    enum { AROUND = sizeof ",\"\":\"\"" };
    const char *at = line->text, *end = line->text + line->length;
    char *to = out, *last = out + size - sizeof TRUNCATED_JSON;
    bool cut = line->cut;
    while (at < end) {
        size_t key_length = strcspn(at, "=");
        const char *value = at + key_length + (at[key_length] == '='), *stop = value_end(value);
        if (!stop || (line->cut && stop == end) || stop - at + AROUND > last - to) {
            cut = true;
            break;
        }
        *to = to == out ? '{' : ',';
        to++;
        to = put_plain(to, at, key_length, true);
        *to++ = ':';
        if (*value == '"')
            to = mempcpy(to, value, (size_t)(stop - value));
        else
            to =
                put_plain(to, value, (size_t)(stop - value), !is_bare(at, key_length, value, stop));
        at = stop + strspn(stop, " ");
    }
    to = stpcpy(to, cut ? TRUNCATED_JSON : "}");
    return (size_t)(to - out);
}

/* Writes with one call, so that lines of several threads and processes do not mix. False when the
 * line is lost. */
static bool line_write(const struct line *line)
{
    char out[LOG_LINE_MAX];
    size_t length = 0;
    if (log_priorities) {
        memcpy(out, priorities_text[line->level], PRIORITY_LENGTH);
        length = PRIORITY_LENGTH;
    }
    if (log_format == LOG_JSON)
        length += write_json(line, out + length, sizeof out - length - 1);
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

/* The caller holds limits_mutex. Compares texts, not addresses: several files may log one event. */
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

/* True when the event may be written now; then with the number suppressed before it. */
static bool admit(enum log_level level, const char *event, const char *server, unsigned max,
                  time_t second, unsigned long *suppressed_out)
{
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

/* Takes one due count out of the table: one whose second is over, or with `all` any. */
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

/* While the log's reader hangs, this line is lost as well; then the count is kept. */
static void write_dropped(const struct timespec *now)
{
    unsigned long lost = log_sink_lost();
    if (lost > 0)
        note_dropped(lost);
    unsigned long lines = atomic_load_explicit(&dropped, memory_order_relaxed);
    if (lines == 0 || !atomic_compare_exchange_strong(&dropped, &lines, 0))
        return;
    struct line line;
    line_begin(&line, now, LOG_WARN, "log_lines_dropped", NULL, 0);
    line_print(&line, " lines=%lu", lines);
    if (!line_write(&line))
        atomic_fetch_add(&dropped, lines);
}

static void write_due(const struct timespec *now, bool all)
{
    struct limit due;
    while (take_due(now->tv_sec, all, &due)) {
        struct line line;
        line_begin(&line, now, due.level, due.event, due.server, due.suppressed);
        line_send(&line);
    }
}

/* `max`: lines per second of the event; 0: no limit. */
static void __attribute__((format(printf, 5, 0)))
log_line(enum log_level level, const char *event, const char *server, unsigned max,
         const char *format, va_list arguments)
{
    int saved_errno = errno; /* callers may read errno after logging */
    struct timespec now;
    unsigned long suppressed = 0;
    if (!log_enabled(level))
        return;
    clock_gettime(CLOCK_REALTIME, &now);
    write_dropped(&now);
    if (max == 0 || admit(level, event, server, max, now.tv_sec, &suppressed)) {
        struct line line;
        line_begin(&line, &now, level, event, server, suppressed);
        if (format && format[0]) {
            line_print(&line, " ");
            line_add(&line, format, arguments);
        }
        line_send(&line);
    }
    if (max > 0)
        write_due(&now, false);
    errno = saved_errno;
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_line(level, event, NULL, LOG_EVENT_PER_SECOND, format, arguments);
    va_end(arguments);
}

void log_each(enum log_level level, const char *event, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_line(level, event, NULL, 0, format, arguments);
    va_end(arguments);
}

void log_failure(enum log_level level, const char *event, const char *server, const char *format,
                 ...)
{
    va_list arguments;
    va_start(arguments, format);
    log_line(level, event, server, 1, format, arguments);
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

/* True when logfmt needs no quotes; an empty value would look like a missing one. */
static bool is_plain(const char *value)
{
    for (const char *at = value; *at; at++)
        if (is_control(*at) || (*at & 0x80) || strchr(" \"=\\", *at))
            return false;
    return value[0] != '\0';
}

/* Bytes of the UTF-8 character at the start of `text`; 0 when there is none (RFC 3629). */
static size_t utf8_length(const char *text)
{
    const unsigned char *at = (const unsigned char *)text;
    size_t count = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    bool overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool surrogate = at[0] == 0xed && at[1] > 0x9f;
    bool beyond = at[0] > 0xf4 || (at[0] == 0xf4 && at[1] > 0x8f);
    for (size_t i = 1; i < count; i++)
        if ((at[i] & 0xc0) != 0x80) /* also at the final NUL */
            return 0;
    return overlong || surrogate || beyond ? 0 : count;
}

/* The letter that escapes c behind a backslash; 0 when c needs no escape. */
static char escape_of(char c)
{
    static const char escaped[] = "\"\\\n\r\t", letters[] = "\"\\nrt";
    const char *at = strchr(escaped, c); /* of the NUL that ends it: letters' NUL */
    return at ? letters[at - escaped] : '\0';
}

const char *log_quote(const char *value, char *buffer, size_t size)
{
    if (!value)
        value = "";
    if (is_plain(value) && strlen(value) < size)
        return value;
    if (size < sizeof "\"\"")
        return "\"\"";
    size_t length = 0, taken;
    buffer[length++] = '"';
    for (; *value; value += taken) {
        char escape = escape_of(*value);
        const char escaped[] = {'\\', escape};
        size_t known = utf8_length(value);
        const char *text = escape               ? escaped
                           : known == 0         ? NO_CHARACTER
                           : is_control(*value) ? "?"
                                                : value;
        size_t count = escape ? sizeof escaped : known == 0 ? strlen(NO_CHARACTER) : known;
        /* Never splits a character, and keeps room for the closing quote: a cut value is well
         * formed. */
        if (length + count + sizeof "\"" > size)
            break;
        memcpy(buffer + length, text, count);
        length += count;
        taken = known > 0 ? known : 1;
    }
    buffer[length++] = '"';
    buffer[length] = '\0';
    return buffer;
}

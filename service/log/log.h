/* The log: one event a line, as logfmt or JSON, on standard error. */
#ifndef SECKILL_SERVICE_LOG_LOG_H
#define SECKILL_SERVICE_LOG_LOG_H

#include <stdbool.h>
#include <stddef.h>

enum log_level { LOG_DEBUG, LOG_INFO, LOG_WARN, LOG_ERROR };
enum log_format { LOG_LOGFMT, LOG_JSON };

#define LOG_LINE_MAX 4096  /* bytes with the newline; at most PIPE_BUF, so that lines never mix */
#define LOG_QUOTED_MAX 512 /* bytes of a value quoted by LOG_QUOTE, with the NUL */
#define LOG_EVENT_PER_SECOND 20 /* lines per second of one event and level */

/* Sets the least level and the file descriptor, which stays the caller's; the defaults are LOG_INFO
 * and 2. Ends what log_level_set began. Any thread; another descriptor only while no other thread
 * logs. */
void log_setup(enum log_level level, int fd);

/* Sets the format of lines; the default is logfmt without priorities. With `priorities` each begins
 * with <N>, which systemd's journal takes as its priority. Any thread. */
void log_style(enum log_format format, bool priorities);

/* Overrides the least level: for `for_s` seconds, after which log_setup's is back, or with 0 until
 * the next call of either. Any thread. */
void log_level_set(enum log_level level, unsigned for_s);

/* The present least level, and for how many more seconds, 0: without end. Any thread. */
enum log_level log_level_now(unsigned *left_s_out);

const char *log_level_name(enum log_level level);

/* "debug", "info", "warn", "error"; false (and LOG_INFO) for any other text. */
bool log_level_parse(const char *text, enum log_level *level_out);

/* True when a line of this level would be written: for callers that must compute what they log. */
bool log_enabled(enum log_level level);

/* Writes `ts=… level=… event=EVENT KEY=VALUE …` with one write(2), or the pairs as a JSON object,
 * which is valid whatever bytes the values hold: unquoted numbers, true and false stay so, other
 * values are texts. `event` is a word that is never freed (a string literal). `format` gives the
 * pairs after it, or NULL; values with spaces or from outside go through LOG_QUOTE. Control
 * characters become question marks; a line that is too long is cut and ends in `truncated=true`.
 *
 * At most LOG_EVENT_PER_SECOND lines are written per second of an event and level. Further ones are
 * counted: the count appears as `suppressed=N` on the event's next line, or on a line of its own
 * with the next line of any event.
 *
 * Any thread may call, and never waits for the log's reader or disk: a line that a full pipe or
 * queue does not take is lost, and the next one written follows an event=log_lines_dropped with
 * their number. Keeps errno. */
void log_event(enum log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* log_event without a limit, for callers with their own. */
void log_each(enum log_level level, const char *event, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* log_event for a failure of a remote server, "redis" or "ledger", at most once per second of an
 * event and server; `server=` is the first pair. `server` is never freed either. */
void log_failure(enum log_level level, const char *event, const char *server, const char *format,
                 ...) __attribute__((format(printf, 4, 5)));

/* Writes the suppressed= counts still due, and waits, at most a second, until a file has all lines.
 * For the end of the process. */
void log_flush(void);

/* Returns the value as logfmt needs it: itself when it is a plain word, else a JSON string in
 * `buffer`, cut when it does not fit. Bytes that are not UTF-8 become U+FFFD; NULL is written as
 * "". The result lives as long as both arguments. */
const char *log_quote(const char *value, char *buffer, size_t size);

/* log_quote with a buffer that lives until the enclosing block ends:
 * log_event(LOG_WARN, "redis_down", "error=%s", LOG_QUOTE(error)). */
#define LOG_QUOTE(value) log_quote((value), (char[LOG_QUOTED_MAX]){0}, LOG_QUOTED_MAX)

#endif

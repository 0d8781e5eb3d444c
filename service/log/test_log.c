/* The log writes whole, quoted lines, and a flood of one event is not a flood of lines. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/test_range.h"
#include "service/log/log.h"
#include "service/log/log_sink.h"
#include "service/metrics/metrics.h"

static int log_file = -1;
static char written[1 << 23];
static _Atomic bool disk_stands_still, disk_is_slow;

/* In place of the C library's: a disk that others keep busy. */
ssize_t write(int fd, const void *text, size_t length)
{
    while (fd == log_file && disk_stands_still)
        usleep(1000);
    if (fd == log_file && disk_is_slow)
        usleep(100000);
    return syscall(SYS_write, fd, text, length);
}

static int open_log(void **state)
{
    (void)state;
    char name[] = "/tmp/test_log_XXXXXX";
    log_file = mkstemp(name);
    unlink(name);
    log_setup(LOG_INFO, log_file);
    return log_file < 0;
}

/* Forgets what was written so far, so that each test reads its own lines. */
static void restart(void)
{
    log_flush(); /* waits for the writer, too */
    assert_int_equal(ftruncate(log_file, 0), 0);
    lseek(log_file, 0, SEEK_SET);
}

static const char *read_log(void)
{
    log_sink_flush();
    ssize_t n = pread(log_file, written, sizeof written - 1, 0);
    assert_true(n >= 0);
    written[n] = '\0';
    return written;
}

static unsigned count_of(const char *text, const char *word)
{
    unsigned count = 0;
    for (; (text = strstr(text, word)); text += strlen(word))
        count++;
    return count;
}

static void test_line_has_time_level_event_and_pairs(void **state)
{
    (void)state;
    restart();
    log_event(LOG_WARN, "shape", "address=%s n=%d", "127.0.0.1:1", 7);
    const char *line = read_log();
    assert_int_equal(strspn(line + 3, "0123456789-T:.Z"), strlen("2026-11-20T21:30:00.123Z"));
    assert_memory_equal(line, "ts=20", 5);
    assert_string_equal(line + strlen("ts=2026-11-20T21:30:00.123Z"),
                        " level=warn event=shape address=127.0.0.1:1 n=7\n");
    restart();
    log_event(LOG_INFO, "bare", NULL);
    assert_non_null(strstr(read_log(), " level=info event=bare\n"));
}

static void test_level_filters(void **state)
{
    (void)state;
    restart();
    log_event(LOG_DEBUG, "quiet", "n=1");
    assert_string_equal(read_log(), "");
    assert_false(log_enabled(LOG_DEBUG));
    log_setup(LOG_DEBUG, log_file);
    log_event(LOG_DEBUG, "quiet", "n=2");
    log_setup(LOG_INFO, log_file);
    assert_non_null(strstr(read_log(), "level=debug event=quiet n=2\n"));
    enum log_level level;
    assert_true(log_level_parse("warn", &level));
    assert_int_equal(level, LOG_WARN);
    assert_false(log_level_parse("WARN", &level));
    assert_int_equal(level, LOG_INFO);
}

static void test_quote(void **state)
{
    (void)state;
    char buffer[12];
    assert_string_equal(log_quote("plain-1.2:3", buffer, sizeof buffer), "plain-1.2:3");
    assert_string_equal(log_quote("", buffer, sizeof buffer), "\"\"");
    assert_string_equal(log_quote(NULL, buffer, sizeof buffer), "\"\"");
    assert_string_equal(log_quote("a b", buffer, sizeof buffer), "\"a b\"");
    assert_string_equal(log_quote("a=b", buffer, sizeof buffer), "\"a=b\"");
    assert_string_equal(log_quote("a\n\"\\", buffer, sizeof buffer), "\"a\\n\\\"\\\\\"");
    assert_string_equal(log_quote("12 45678901234", buffer, sizeof buffer), "\"12 456789\"");
    assert_string_equal(log_quote("123 5678\n123", buffer, sizeof buffer), "\"123 5678\"");
}

static void test_line_stays_one_line(void **state)
{
    (void)state;
    restart();
    log_event(LOG_INFO, "breaks", "value=%s", "a\nts=forged\r\x1b");
    assert_int_equal(count_of(read_log(), "\n"), 1);
    assert_null(strstr(read_log(), "\x1b"));

    restart();
    char *longest = malloc(2 * LOG_LINE_MAX);
    memset(longest, 'x', 2 * LOG_LINE_MAX - 1);
    longest[2 * LOG_LINE_MAX - 1] = '\0';
    log_event(LOG_INFO, "long", "value=%s", longest);
    free(longest);
    const char *line = read_log();
    assert_true(strlen(line) > LOG_LINE_MAX - 32 && strlen(line) <= LOG_LINE_MAX);
    assert_int_equal(count_of(line, "\n"), 1);
    assert_string_equal(line + strlen(line) - strlen(" truncated=true\n"), " truncated=true\n");
}

/* What the lines say was left out. */
static unsigned long suppressed_sum(const char *text)
{
    unsigned long sum = 0;
    for (; (text = strstr(text, " suppressed=")); text++)
        sum += strtoul(text + strlen(" suppressed="), NULL, 10);
    return sum;
}

static void test_flood_is_counted(void **state)
{
    (void)state;
    restart();
    errno = EDOM;
    for (unsigned i = 0; i < 5000; i++)
        log_event(LOG_ERROR, "flood", "n=%u", i);
    assert_int_equal(errno, EDOM);
    log_event(LOG_INFO, "flood", "level=%s", "other");
    log_event(LOG_ERROR, "calm", "n=1");
    assert_int_equal(count_of(read_log(), "event=calm n=1\n"), 1);
    assert_int_equal(count_of(read_log(), "level=info event=flood level=other\n"), 1);
    log_flush();
    const char *text = read_log();
    unsigned lines = count_of(text, " n=") - 1; /* without the calm one */
    assert_true(lines >= LOG_EVENT_PER_SECOND && lines < 500);
    assert_int_equal(lines + suppressed_sum(text), 5000);
    log_flush();
    assert_int_equal(lines + suppressed_sum(read_log()), 5000);
}

static void *log_many(void *argument)
{
    for (unsigned i = 0; i < 2000; i++)
        log_event(LOG_WARN, "threads", "from=%s", (const char *)argument);
    return NULL;
}

static void test_threads_never_mix_lines(void **state)
{
    (void)state;
    restart();
    pthread_t threads[4];
    char names[4][64];
    for (int i = 0; i < 4; i++) {
        memset(names[i], 'a' + i, sizeof names[i] - 1);
        names[i][sizeof names[i] - 1] = '\0';
        pthread_create(&threads[i], NULL, log_many, names[i]);
    }
    for (int i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    log_flush();
    unsigned long lines = 0;
    const char *text = read_log();
    for (const char *line = text; *line; line = strchr(line, '\n') + 1) {
        assert_memory_equal(line, "ts=", 3);
        const char *from = strstr(line, " from=");
        if (!from || from > strchr(line, '\n'))
            continue;
        char letters[2] = {from[6], '\0'};
        assert_int_equal(strspn(from + 6, letters), 63);
        assert_int_equal(from[6 + 63], '\n');
        lines++;
    }
    assert_int_equal(lines + suppressed_sum(text), 8000);
}

/* More kinds of event than the table holds are still counted. Last, as it fills the table. */
static void test_many_events(void **state)
{
    (void)state;
    restart();
    static char names[200][16];
    for (unsigned i = 0; i < 200; i++) {
        snprintf(names[i], sizeof names[i], "event_%u", i);
        log_event(LOG_INFO, names[i], "x=1");
    }
    log_flush();
    assert_int_equal(count_of(read_log(), " x=1") + suppressed_sum(read_log()), 200);
}

/* Fills the log, whose reader stands still, and reads on: what was dropped is told. Each level has
 * limits of its own. */
static void assert_never_waits(int reader, int writer, enum log_level level)
{
    enum { KINDS = 8, LINES = KINDS * LOG_EVENT_PER_SECOND, TEXT = 3000 };
    static const char *const events[KINDS] = {"blocked-0", "blocked-1", "blocked-2", "blocked-3",
                                              "blocked-4", "blocked-5", "blocked-6", "blocked-7"};
    static char text[TEXT + 1];
    memset(text, 'x', TEXT);
    restart();
    log_setup(LOG_INFO, writer);
    alarm(10); /* before: for ever */
    for (int i = 0; i < LINES; i++)
        log_event(level, events[i % KINDS], "text=%s", text);
    ssize_t before = read(reader, written, sizeof written - 1);
    assert_true(before > 0);
    log_event(LOG_WARN, "goes-on", NULL);
    alarm(0);
    ssize_t after = read(reader, written + before, sizeof written - 1 - (size_t)before);
    assert_true(after > 0);
    written[before + after] = '\0';
    const char *told = "event=log_lines_dropped lines=";
    unsigned long dropped = 0;
    for (const char *at = strstr(written, told); at; at = strstr(at + 1, told))
        dropped += strtoul(at + strlen(told), NULL, 10);
    assert_true(dropped > 0);
    assert_int_equal(count_of(written, "event=blocked-") + dropped, LINES);
    assert_non_null(strstr(written, "event=goes-on\n"));
    log_setup(LOG_INFO, log_file);
    close(reader);
    close(writer);
}

static void test_pipe_whose_reader_stopped_stops_nobody(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    assert_never_waits(ends[0], ends[1], LOG_WARN);
}

static void test_socket_whose_reader_stopped_stops_nobody(void **state)
{
    (void)state;
    int ends[2], size = 4096;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    setsockopt(ends[1], SOL_SOCKET, SO_SNDBUF, &size, sizeof size);
    assert_never_waits(ends[0], ends[1], LOG_ERROR);
}

/* The sum of the counts behind all places where the word stands. */
static unsigned long sum_of(const char *text, const char *word)
{
    unsigned long sum = 0;
    for (const char *at = strstr(text, word); at; at = strstr(at + 1, word))
        sum += strtoul(at + strlen(word), NULL, 10);
    return sum;
}

static void test_disk_that_stands_still_stops_nobody(void **state)
{
    enum { LINES = 1000, TEXT = 3000 };
    (void)state;
    static char text[TEXT + 1];
    memset(text, 'x', TEXT);
    restart();
    uint64_t before = metrics_read(METRIC_LOG_LINES_DROPPED);
    disk_stands_still = true;
    alarm(10); /* before: for ever */
    for (int i = 0; i < LINES; i++)
        log_each(LOG_INFO, "busy-disk", "text=%s", text);
    disk_stands_still = false;
    log_sink_flush();
    log_event(LOG_INFO, "disk-goes-on", NULL);
    alarm(0);
    unsigned long dropped = sum_of(read_log(), "event=log_lines_dropped lines=");
    assert_true(dropped > 0);
    assert_int_equal(count_of(written, "event=busy-disk text=x") + dropped, LINES);
    assert_int_equal(metrics_read(METRIC_LOG_LINES_DROPPED) - before, dropped);
    assert_non_null(strstr(written, "event=disk-goes-on\n"));
}

/* What main does for it: writes its last words to the descriptor, and ends. */
static int end_with_last_words(int fd, const char *how)
{
    log_file = fd;
    log_setup(LOG_INFO, fd);
    disk_is_slow = true;
    log_event(LOG_ERROR, "last-words", "how=%s", how);
    if (strcmp(how, "abort") == 0)
        abort();
    return 3;
}

static const char *program; /* the path of this one */

static void assert_last_words(const char *how, const char *wanted)
{
    char fd[16];
    int status;
    restart();
    snprintf(fd, sizeof fd, "%d", log_file);
    pid_t child = fork();
    if (child == 0) {
        execl(program, program, fd, how, NULL);
        _exit(127);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    if (strcmp(how, "abort") == 0)
        assert_int_equal(WTERMSIG(status), SIGABRT);
    else
        assert_int_equal(WEXITSTATUS(status), 3);
    assert_non_null(strstr(read_log(), wanted));
}

static void test_last_words_come_out(void **state)
{
    (void)state;
    assert_last_words("abort", "event=last-words how=abort\n");
    assert_last_words("exit", "event=last-words how=exit\n");
}

static void test_descriptor_of_the_caller_stays_blocking(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    log_setup(LOG_INFO, ends[1]);
    assert_int_equal(fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0);
    log_setup(LOG_INFO, log_file);
    close(ends[0]);
    close(ends[1]);
}

static void test_failures_of_one_server_leave_one_line_a_second(void **state)
{
    (void)state;
    restart();
    for (int i = 0; i < 1000; i++) {
        log_failure(LOG_WARN, "broken", "redis", "i=%d", i);
        log_failure(LOG_WARN, "broken", "ledger", "i=%d", i);
    }
    log_flush();
    const char *text = read_log();
    assert_int_in_range(count_of(text, " server=redis i="), 1, 3);
    assert_int_in_range(count_of(text, " server=ledger "), 1, 6);
    assert_int_equal(count_of(text, " i=") + suppressed_sum(text), 2000);
}

static void test_a_level_set_for_a_time_falls_back(void **state)
{
    (void)state;
    unsigned left_s;
    log_level_set(LOG_ERROR, 0);
    assert_int_equal(log_level_now(&left_s), LOG_ERROR);
    assert_int_equal(left_s, 0);
    assert_false(log_enabled(LOG_WARN));
    log_level_set(LOG_DEBUG, 1);
    assert_true(log_enabled(LOG_DEBUG));
    log_level_now(&left_s);
    assert_int_in_range(left_s, 0, 1);
    for (int i = 0; i < 3000 && log_enabled(LOG_DEBUG); i++)
        usleep(10000);
    assert_false(log_enabled(LOG_DEBUG));
    assert_int_equal(log_level_now(&left_s), LOG_INFO);
    log_level_set(LOG_DEBUG, 3600);
    log_level_set(LOG_ERROR, 0); /* ends the time of the one before */
    assert_int_equal(log_level_now(&left_s), LOG_ERROR);
    assert_int_equal(left_s, 0);
    log_level_set(LOG_DEBUG, 3600);
    log_setup(LOG_INFO, log_file); /* as a reload of the configuration does */
    assert_false(log_enabled(LOG_DEBUG));
}

static void test_priorities_and_json(void **state)
{
    (void)state;
    restart();
    log_style(LOG_LOGFMT, true);
    log_event(LOG_WARN, "with_priority", NULL);
    log_style(LOG_JSON, true);
    log_event(LOG_ERROR, "as_json", "n=7 text=%s", LOG_QUOTE("a b"));
    log_style(LOG_LOGFMT, false);
    log_each(LOG_INFO, "plain", NULL);
    assert_memory_equal(read_log(), "<4>ts=", 6);
    const char *json = strchr(read_log(), '\n') + 1;
    assert_memory_equal(json, "<3>{\"ts\":\"20", 12);
    assert_non_null(
        strstr(json, "\"level\":\"error\",\"event\":\"as_json\",\"n\":7,\"text\":\"a b\"}\nts="));
}

static void test_the_journal_is_known_by_its_inode(void **state)
{
    (void)state;
    struct stat status;
    char stream[64];
    assert_int_equal(fstat(log_file, &status), 0);
    snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)status.st_dev,
             (unsigned long long)status.st_ino);
    unsetenv("JOURNAL_STREAM");
    assert_false(log_sink_is_journal(log_file));
    setenv("JOURNAL_STREAM", stream, 1);
    assert_true(log_sink_is_journal(log_file));
    setenv("JOURNAL_STREAM", "1:", 1);
    assert_false(log_sink_is_journal(log_file));
    snprintf(stream, sizeof stream, "%llu:%llu", (unsigned long long)status.st_dev,
             (unsigned long long)status.st_ino + 1);
    setenv("JOURNAL_STREAM", stream, 1);
    assert_false(log_sink_is_journal(log_file));
    unsetenv("JOURNAL_STREAM");
}

static void test_log_each_has_no_limit(void **state)
{
    (void)state;
    restart();
    for (int i = 0; i < 10 * LOG_EVENT_PER_SECOND; i++)
        log_each(LOG_INFO, "each", "i=%d", i);
    assert_int_equal(count_of(read_log(), "event=each i="), 10 * LOG_EVENT_PER_SECOND);
}

int main(int argc, char **argv)
{
    if (argc == 3)
        return end_with_last_words(atoi(argv[1]), argv[2]);
    program = argv[0];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_line_has_time_level_event_and_pairs),
        cmocka_unit_test(test_level_filters),
        cmocka_unit_test(test_quote),
        cmocka_unit_test(test_line_stays_one_line),
        cmocka_unit_test(test_flood_is_counted),
        cmocka_unit_test(test_failures_of_one_server_leave_one_line_a_second),
        cmocka_unit_test(test_threads_never_mix_lines),
        cmocka_unit_test(test_pipe_whose_reader_stopped_stops_nobody),
        cmocka_unit_test(test_socket_whose_reader_stopped_stops_nobody),
        cmocka_unit_test(test_disk_that_stands_still_stops_nobody),
        cmocka_unit_test(test_last_words_come_out),
        cmocka_unit_test(test_descriptor_of_the_caller_stays_blocking),
        cmocka_unit_test(test_a_level_set_for_a_time_falls_back),
        cmocka_unit_test(test_priorities_and_json),
        cmocka_unit_test(test_the_journal_is_known_by_its_inode),
        cmocka_unit_test(test_log_each_has_no_limit),
        cmocka_unit_test(test_many_events),
    };
    return cmocka_run_group_tests(tests, open_log, NULL);
}

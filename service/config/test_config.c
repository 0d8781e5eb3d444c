/* Options come from the right place, wrong ones are named, and secrets stay secret. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/config/config.h"
#include "base/config_file.h"
#include "service/config/value.h"
#include "service/log/log.h"

#define ARGUMENTS_MAX 16

/* One call of config_load and what it printed. */
struct load {
    struct config config;
    enum config_result result;
    char *out;
    char *err;
};

static char *no_words[] = {NULL};

static void load_words(struct load *load, char **flags, char **environment)
{
    char *argv[ARGUMENTS_MAX + 2] = {(char[]){"seckilld"}};
    int argc = 1;
    while (*flags && argc <= ARGUMENTS_MAX)
        argv[argc++] = *flags++;
    size_t out_size, err_size;
    FILE *out = open_memstream(&load->out, &out_size);
    FILE *err = open_memstream(&load->err, &err_size);
    memset(&load->config, 0xee, sizeof load->config);
    load->result = config_load(&load->config, argv, environment, out, err);
    fclose(out);
    fclose(err);
}

#define LIST(...) ((char *[]){__VA_ARGS__ __VA_OPT__(, ) NULL})

static void load_free(struct load *load)
{
    config_free(&load->config);
    free(load->out);
    free(load->err);
}

static bool is_zero(const struct config *config)
{
    static const struct config zero;
    return memcmp(config, &zero, sizeof zero) == 0;
}

static void assert_says(const char *message, const char *part)
{
    if (!strstr(message, part))
        fail_msg("\"%s\" is missing in: %s", part, message);
}

/* The load must fail with a message that holds each of the parts. */
static void assert_refused(char **flags, char **environment, char **parts)
{
    struct load load;
    load_words(&load, flags, environment);
    assert_int_equal(load.result, CONFIG_BAD);
    assert_string_equal(load.out, "");
    assert_true(is_zero(&load.config));
    for (; *parts; parts++)
        assert_says(load.err, *parts);
    assert_int_equal(strcspn(load.err, "\n"), strlen(load.err) - 1);
    load_free(&load);
}

/* A file with this text; its name is removed by the caller. */
static void write_file(char name_out[32], const char *text, size_t size)
{
    strcpy(name_out, "/tmp/test_config_XXXXXX");
    int fd = mkstemp(name_out);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, size), size);
    close(fd);
}

static void load_file(struct load *load, const char *text)
{
    char name[32];
    write_file(name, text, strlen(text));
    load_words(load, LIST("--config", name), no_words);
    unlink(name);
}

static void assert_file_refused(const char *text, char **parts)
{
    char name[32];
    write_file(name, text, strlen(text));
    assert_refused(LIST("--config", name), no_words, parts);
    unlink(name);
}

static void test_defaults(void **state)
{
    (void)state;
    struct load load;
    load_words(&load, no_words, LIST("HOME=/root", "SECKILL_DAEMON=build/seckilld"));
    assert_int_equal(load.result, CONFIG_OK);
    const struct config *config = &load.config;
    assert_string_equal(config->listen, "127.0.0.1:8080");
    assert_string_equal(config->admin_token, "");
    assert_string_equal(config->strategy, "segment_lock");
    assert_string_equal(config->lock, "redis");
    assert_string_equal(config->log_level, "info");
    assert_int_equal(config->order_workers, 2);
    assert_int_equal(config->http_threads, 1);
    assert_int_equal(config->max_batch, 512);
    assert_int_equal(config->lease_ms, 3000);
    assert_int_equal(config->queue_max, 8192);
    assert_int_equal(config->deadline_ms, 2000);
    assert_int_equal(config->node_id, -1);
    assert_int_equal(config->connections_max, 20000);
    assert_int_equal(config->redis_timeout_ms, 500);
    assert_int_equal(config->mysql_timeout_ms, 5000);
    assert_int_equal(config->drain_ms, 10000);
    assert_string_equal(load.out, "");
    assert_string_equal(load.err, "");
    load_free(&load);
}

static void test_flag_over_environment_over_file(void **state)
{
    (void)state;
    char name[32], variable[64];
    static const char text[] = "order_workers = 2\nhttp_threads = 2\nmax_batch = 2\n";
    write_file(name, text, sizeof text - 1);
    snprintf(variable, sizeof variable, "SECKILL_CONFIG=%s", name);
    struct load load;
    load_words(&load, LIST("--order-workers=4", "--node-id", "-1"),
               LIST("SECKILL_ORDER_WORKERS=3", "SECKILL_HTTP_THREADS=3", variable));
    unlink(name);
    assert_int_equal(load.result, CONFIG_OK);
    assert_int_equal(load.config.order_workers, 4);
    assert_int_equal(load.config.http_threads, 3);
    assert_int_equal(load.config.max_batch, 2);
    load_free(&load);
}

static void test_overridden_value_is_not_judged(void **state)
{
    (void)state;
    struct load load;
    load_words(&load, LIST("--order-workers", "4"), LIST("SECKILL_ORDER_WORKERS=many"));
    assert_int_equal(load.result, CONFIG_OK);
    assert_int_equal(load.config.order_workers, 4);
    load_free(&load);
}

static void test_flag_names_the_file(void **state)
{
    (void)state;
    char name[32];
    write_file(name, "order_workers = 7", 17);
    struct load load;
    load_words(&load, LIST("--config", name), LIST("SECKILL_CONFIG=/nowhere"));
    unlink(name);
    assert_int_equal(load.result, CONFIG_OK);
    assert_int_equal(load.config.order_workers, 7);
    load_free(&load);
    assert_refused(no_words, LIST("SECKILL_CONFIG=/nowhere"),
                   LIST("/nowhere", "SECKILL_CONFIG", "No such file"));
    assert_refused(LIST("--config", "/tmp"), no_words, LIST("/tmp", "--config", "directory"));
}

static void test_file_syntax(void **state)
{
    (void)state;
    struct load load;
    load_file(&load, "# comment\n\n  order_workers=3\t\r\n\t# http_threads = 9\n"
                     "redis_url = redis://:p#w=1@h:1/0\nadmin_token =\n http_threads\t=  5");
    assert_int_equal(load.result, CONFIG_OK);
    assert_int_equal(load.config.order_workers, 3);
    assert_int_equal(load.config.http_threads, 5);
    assert_string_equal(load.config.admin_token, "");
    load_free(&load);
}

static void test_file_mistakes_name_their_line(void **state)
{
    (void)state;
    assert_file_refused("\norder_worker = 3\n",
                        LIST(":2: ", "unknown option order_worker; --help lists all"));
    assert_file_refused("order_workers = 3\n#\norder_workers = 3\n",
                        LIST(":3: ", "order_workers", "line 1"));
    assert_file_refused("order_workers 3\n", LIST(":1: ", "option = value"));
    assert_file_refused("order_workers = 3\nhttp_threads = 0",
                        LIST("http_threads = 0 (from /tmp/", ":2)", "1 to 64"));
    assert_file_refused("order_workers = 3 # three",
                        LIST("order_workers = \"3 # three\"", "an integer"));
    assert_file_refused("order_workers = \"3\"", LIST("an integer"));
}

static void test_file_limits(void **state)
{
    (void)state;
    char *large = malloc(CONFIG_FILE_MAX + 1);
    memset(large, '\n', CONFIG_FILE_MAX + 1);
    char name[32];
    write_file(name, large, CONFIG_FILE_MAX + 1);
    assert_refused(LIST("--config", name), no_words, LIST(name, "too large"));
    assert_int_equal(truncate(name, CONFIG_FILE_MAX), 0);
    struct load load;
    load_words(&load, LIST("--config", name), no_words);
    assert_int_equal(load.result, CONFIG_OK);
    load_free(&load);
    unlink(name);
    free(large);

    write_file(name, "order_workers = 3\0\n", 19);
    assert_refused(LIST("--config", name), no_words, LIST(name, "NUL"));
    unlink(name);
}

static void test_integers(void **state)
{
    (void)state;
    char *const bad[] = {
        "0",          "65",  "-1",  "+1",         "1.5", "1e1", "",     " 1",
        "1 ",         "0x1", "one", "4294967297", "--",  "1\n", "\xff", "18446744073709551617",
        "99999999999"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char flag[64];
        snprintf(flag, sizeof flag, "--order-workers=%s", bad[i]);
        assert_refused(LIST(flag), no_words,
                       LIST("order_workers = ", "the flag --order-workers",
                            "an integer from 1 to 64 (threads)"));
    }
    struct load load;
    load_words(
        &load,
        LIST("--order-workers", "64", "--drain-ms=0", "--node-id=1023", "--order-workers", "1"),
        no_words);
    assert_int_equal(load.result, CONFIG_OK);
    assert_int_equal(load.config.order_workers, 1); /* the last one counts */
    assert_int_equal(load.config.drain_ms, 0);
    assert_int_equal(load.config.node_id, 1023);
    load_free(&load);
    assert_refused(LIST("--node-id=-2"), no_words, LIST("node_id", "-1 to 1023"));
    assert_refused(LIST("--node-id=1024"), no_words, LIST("node_id", "-1 to 1023"));
    assert_refused(no_words, LIST("SECKILL_LEASE_MS=99"),
                   LIST("lease_ms = 99", "variable SECKILL_LEASE_MS", "100 to 60000 (ms)"));
}

static void test_choices(void **state)
{
    (void)state;
    char *const bad[] = {"", "segment", "segment_lock ", "Segment_lock", "lock", "info"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char flag[64];
        snprintf(flag, sizeof flag, "--strategy=%s", bad[i]);
        assert_refused(LIST(flag), no_words, LIST("strategy = ", "one of: " CONFIG_STRATEGIES));
    }
    assert_refused(LIST("--log-level=inf"), no_words, LIST("one of: debug info warn error"));
    char *const good[] = {"debug", "info", "warn", "error"};
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        struct load load;
        load_words(&load, LIST("--log-level", good[i]), no_words);
        assert_int_equal(load.result, CONFIG_OK);
        assert_string_equal(load.config.log_level, good[i]);
        load_free(&load);
    }
}

static void assert_servers(const char *given, const char *kept, const char *shown)
{
    char flag[256], line[2048];
    struct load load;
    snprintf(flag, sizeof flag, "--lock-servers=%s", given);
    load_words(&load, LIST(flag), no_words);
    assert_int_equal(load.result, CONFIG_OK);
    assert_string_equal(load.config.lock_servers, kept);
    config_print(&load.config, line, sizeof line);
    assert_non_null(strstr(line, shown));
    load_free(&load);
}

static void test_lists_of_urls(void **state)
{
    (void)state;
    assert_servers("", "", "lock_servers=\"\"");
    assert_servers("redis://a", "redis://a", "lock_servers=redis://a");
    assert_servers(" redis://a:1,redis://b:2, redis://c ", "redis://a:1 redis://b:2 redis://c",
                   "lock_servers=\"redis://a:1 redis://b:2 redis://c\"");
    assert_servers("zookeeper://a:1,b:2,c:3/shop,mysql://d/e",
                   "zookeeper://a:1,b:2,c:3/shop mysql://d/e",
                   "lock_servers=\"zookeeper://a:1,b:2,c:3/shop mysql://d/e\"");
    assert_servers("redis://:pw@a,mysql://u:pw@b/c", "redis://:pw@a mysql://u:pw@b/c",
                   "lock_servers=\"redis://:***@a mysql://u:***@b/c\"");
    char *const bad[] = {"a",           "redis:/a",         "redis://",     "http://a",
                         "redis://a b", "redis://a,,b://c", "redis://\xff", "redis://a,redis://"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        char flag[64];
        snprintf(flag, sizeof flag, "--lock-servers=%s", bad[i]);
        assert_refused(LIST(flag), no_words,
                       LIST("lock_servers = ", "of these schemes: redis mysql zookeeper"));
    }
}

static void assert_each(const char *name, char *const *values, size_t count, bool accepted)
{
    for (size_t i = 0; i < count; i++) {
        char flag[256];
        snprintf(flag, sizeof flag, "--%s=%s", name, values[i]);
        struct load load;
        load_words(&load, LIST(flag), no_words);
        if ((load.result == CONFIG_OK) != accepted)
            fail_msg("%s was %s", flag, accepted ? "refused" : "accepted");
        load_free(&load);
    }
}

static void test_addresses(void **state)
{
    (void)state;
    char *const good[] = {"127.0.0.1:0", "0.0.0.0:65535", "localhost:80", "[::1]:8080"};
    char *const bad[] = {
        "",        "8080",    ":8080",    "host",    "host:",     "host:65536",
        "host:-1", "host:-0", "host:8a",  "::1:80",  "[::1]",     "[::1]80",
        "[]:80",   "a b:80",  "host:80 ", "[::1:80", "host:80/x", "host:0000000080"};
    assert_each("listen", good, sizeof good / sizeof *good, true);
    assert_each("listen", bad, sizeof bad / sizeof *bad, false);
}

static void test_urls(void **state)
{
    (void)state;
    char *const good[] = {
        "mysql://h/db",
        "mysql://u:p@h:1/db?socket=/run/x@y.sock",
        "MySQL://u@[::1]:3306/db",
        "mysql://u:p%2F@h:1/db",
        "mysql://u:p@x@h:1/db",
        "mysql://u@/db?socket=/run/m.sock",
    };
    char *const bad[] = {
        "",
        "mysql://h", /* the driver needs a database */
        "MySQL://u@[::1]:3306",
        "mysql://u:p%2F@h:1",
        "mysql://h:0/db",
        "mysql://u:%zz@h/db",
        "mysql:",
        "mysql://",
        "mysql:///db",
        "redis://h",
        "mysql:h",
        "h:3306",
        "mysql://u:p@",
        "mysql://h:99999/db",
        "mysql://h:x/db",
        "http://h",
        "mysql://h /db",
        "mysql://u:p/w@h:1/db",
        "mysql://u:1/w@h:1/db",
    };
    assert_each("mysql-url", good, sizeof good / sizeof *good, true);
    assert_each("mysql-url", bad, sizeof bad / sizeof *bad, false);
    assert_refused(LIST("--mysql-url=mysql://h:x/db"), no_words,
                   LIST("mysql_url = mysql://h:x/db (from the flag --mysql-url): not of the form "
                        "mysql://",
                        "the port is not a number"));
    assert_refused(LIST("--mysql-url=mysql://h/a,mysql://h/b"), no_words,
                   LIST("mysql_url = ", "there is a second URL in it", "blanks are between them"));
    assert_refused(LIST("--redis-url=redis://h/x"), no_words,
                   LIST("redis_url = ", "redis://[user", "the database is not a number"));
    assert_refused(LIST("--lock-servers=redis://h redis://h:x"), no_words,
                   LIST("lock_servers = ", "; one is not of the form redis://", "the port"));
}

static void test_complaint_names_what_was_given(void **state)
{
    (void)state;
    assert_refused(LIST("--order-workers=0"), no_words,
                   LIST("order_workers = 0", "the flag --order-workers)"));
    assert_refused(no_words, LIST("SECKILL_HTTP_THREADS=0"),
                   LIST("http_threads = 0", "variable SECKILL_HTTP_THREADS)"));
    assert_refused(LIST("--order-workers"), no_words, LIST("--order-workers needs a value"));
    assert_refused(LIST("--lane=1"), no_words, LIST("unknown flag --lane; --help"));
}

static void test_log_tells_all_options(void **state)
{
    (void)state;
    struct load load;
    char text[8192];
    int ends[2];
    load_words(&load, LIST("--order-workers=5"), no_words);
    assert_int_equal(pipe(ends), 0);
    log_setup(LOG_INFO, ends[1]);
    config_log(&load.config);
    log_setup(LOG_INFO, STDERR_FILENO);
    close(ends[1]);
    size_t length = 0;
    for (ssize_t n; (n = read(ends[0], text + length, sizeof text - 1 - length)) > 0;)
        length += (size_t)n;
    close(ends[0]);
    text[length] = '\0';
    assert_says(text, "level=info event=starting listen=127.0.0.1:8080 ");
    assert_says(text, " order_workers=5 ");
    load_free(&load);
}

static void test_unknown_flags(void **state)
{
    (void)state;
    assert_refused(LIST("--order-worker", "3"), no_words, LIST("unknown flag --order-worker;"));
    assert_refused(LIST("--redis_url=x"), no_words, LIST("unknown flag --redis_url;"));
    assert_refused(LIST("--hlep"), no_words, LIST("unknown flag --hlep;"));
    assert_refused(LIST("--conf", "x"), no_words, LIST("unknown flag --conf;"));
    assert_refused(LIST("--horses", "3"), no_words, LIST("--horses", "--help lists all"));
    assert_refused(LIST("--help=all"), no_words, LIST("--help takes no value"));
    assert_refused(LIST("--migrate", "--check-config"), no_words,
                   LIST("--migrate and --check-config exclude each other"));
    assert_refused(LIST("order_workers"), no_words, LIST("unexpected argument order_workers"));
    assert_refused(LIST("-l"), no_words, LIST("unexpected argument -l"));
    assert_refused(LIST("--"), no_words, LIST("unexpected argument --"));
    assert_refused(LIST("--order-workers"), no_words, LIST("--order-workers needs a value"));
    assert_refused(LIST("--order-workers", "--http-threads=2"), no_words,
                   LIST("--order-workers needs a value"));
    assert_refused(LIST("--config"), no_words, LIST("--config needs a value"));
    assert_refused(
        LIST("--a-name-that-is-much-longer-than-any-option-could-ever-be-and-then-some-more=3"),
        no_words, LIST("unknown flag --a-name"));
}

static void test_wrong_secrets_are_not_printed(void **state)
{
    (void)state;
    char *const bad[] = {
        "--redis-url=redis://u:hunter2@h:99999/0",
        "--redis-url=redis://hunter2@h:x",
        "--redis-url=u:hunter2@h",
        "--redis-url=redis:/u:hunter2@h",
        "--redis-url=redis://u:hun/hunter2@h:1",
        "--redis-url=u:hunter2@h://",
        "--mysql-url=mysql://u:a:hunter2@h:x",
        "--mysql-url=redis://u:hunter2@h",
        "--mysql-url=mysql://u:a@hunter2@h:x",
        "--admin-token=hunter2 and more",
        "--admin-tokn=hunter2",
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct load load;
        load_words(&load, LIST(bad[i]), no_words);
        assert_int_equal(load.result, CONFIG_BAD);
        if (strstr(load.err, "hunter2"))
            fail_msg("%s: %s", bad[i], load.err);
        load_free(&load);
    }
}

static void test_print_masks_secrets(void **state)
{
    (void)state;
    struct load load;
    load_words(&load,
               LIST("--redis-url=redis://app:hunter2@r:6379/0", "--admin-token", "hunter2",
                    "--shop-token=hunter2,hunter2b"),
               LIST("SECKILL_MYSQL_URL=mysql://root:hunter2@m:3306/db?socket=/run/m.sock"));
    assert_int_equal(load.result, CONFIG_OK);
    assert_string_equal(load.config.admin_token, "hunter2");
    assert_string_equal(load.config.redis_url, "redis://app:hunter2@r:6379/0");
    char line[2048];
    size_t length = config_print(&load.config, line, sizeof line);
    assert_int_equal(strlen(line), length);
    assert_null(strstr(line, "hunter2"));
    assert_says(line, " redis_url=redis://app:***@r:6379/0 ");
    assert_says(line, " mysql_url=\"mysql://root:***@m:3306/db?socket=/run/m.sock\" ");
    assert_says(line, " admin_token=*** ");
    assert_says(line, " shop_token=*** ");
    assert_says(line, " order_workers=2 ");
    assert_says(line, " node_id=-1 ");
    char small[20];
    assert_int_equal(config_print(&load.config, small, sizeof small), length);
    assert_int_equal(strlen(small), sizeof small - 1);
    load_free(&load);
}

static void test_token_file(void **state)
{
    (void)state;
    char name[32], flag[64], shop_flag[64];
    write_file(name, "  s3cret-token\n\nnext-token", 26);
    snprintf(flag, sizeof flag, "--admin-token-file=%s", name);
    snprintf(shop_flag, sizeof shop_flag, "--shop-token-file=%s", name);
    struct load load;
    load_words(&load, LIST(flag, shop_flag), no_words);
    assert_int_equal(load.result, CONFIG_OK);
    assert_string_equal(load.config.admin_token, "s3cret-token,next-token");
    assert_string_equal(load.config.shop_token, "s3cret-token,next-token");
    load_free(&load);
    assert_refused(LIST(shop_flag, "--shop-token=x"), no_words,
                   LIST("shop_token_file", "--shop-token", "one of them"));
    assert_refused(LIST(flag), LIST("SECKILL_ADMIN_TOKEN=other"),
                   LIST("admin_token_file", "SECKILL_ADMIN_TOKEN", "one of them"));
    unlink(name);
    assert_refused(LIST(flag), no_words, LIST("admin_token_file", name, "No such file"));

    char *const bad[] = {"", "\n\n", "two words", "two,tokens", "nön-ascii"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        write_file(name, bad[i], strlen(bad[i]));
        snprintf(flag, sizeof flag, "--admin-token-file=%s", name);
        assert_refused(LIST(flag), no_words, LIST("admin_token_file", name, "one line"));
        unlink(name);
    }
}

static void test_long_values_are_refused(void **state)
{
    (void)state;
    char flag[2 * CONFIG_VALUE_MAX];
    /* The hosts of one URL: h,h,h,... */
    size_t prefix = (size_t)snprintf(flag, sizeof flag, "--lock-servers=zookeeper://");
    for (size_t i = prefix; i < sizeof flag; i++)
        flag[i] = (i - prefix) % 2 == 0 ? 'h' : ',';
    size_t start = strlen("--lock-servers="), longest = start + CONFIG_VALUE_MAX - 1;
    flag[longest - 1] = 'h'; /* wherever the text ends, it ends with a host */
    flag[longest] = 'h';
    flag[sizeof flag - 2] = 'h';
    flag[sizeof flag - 1] = '\0';
    assert_refused(LIST(flag), no_words, LIST("lock_servers = "));
    flag[longest + 1] = '\0';
    assert_refused(LIST(flag), no_words, LIST("lock_servers = "));
    flag[longest] = '\0';
    struct load load;
    load_words(&load, LIST(flag), no_words);
    assert_int_equal(load.result, CONFIG_OK);
    load_free(&load);
}

static const char *const names[] = {
#define NAME(type, name, ...) #name,
    CONFIG_OPTIONS(NAME)
#undef NAME
};

static void test_help_and_version(void **state)
{
    (void)state;
    struct load load;
    load_words(&load, LIST("--order-workers", "4", "--help"), LIST("SECKILL_ORDER_WORKERS=x"));
    assert_int_equal(load.result, CONFIG_EXIT);
    assert_string_equal(load.err, "");
    assert_true(is_zero(&load.config));
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char flag[64];
        snprintf(flag, sizeof flag, "\n  --%s VALUE\n", names[i]);
        for (char *at = flag; *at; at++)
            if (*at == '_')
                *at = '-';
        assert_says(load.out, flag);
    }
    for (const char *line = load.out; *line; line = strchr(line, '\n') + 1)
        assert_true(strcspn(line, "\n") <= 100);
    load_free(&load);

    load_words(&load, LIST("--version"), no_words);
    assert_int_equal(load.result, CONFIG_EXIT);
    assert_string_equal(load.out, "seckilld " SECKILL_VERSION "\n");
    load_free(&load);
}

/* The text with every line `#name = value` made a setting. */
static char *uncomment(const char *text)
{
    char *settings = strdup(text);
    size_t length = 0;
    for (const char *at = text; *at; at++) {
        bool line_begins = at == text || at[-1] == '\n';
        if (!(line_begins && at[0] == '#' && at[1] != ' '))
            settings[length++] = *at;
    }
    settings[length] = '\0';
    return settings;
}

static void test_values_compared_and_exchanged(void **state)
{
    (void)state;
    const struct option *proxies = &config_options[OPTION_trusted_proxies];
    const struct option *workers = &config_options[OPTION_order_workers];
    struct load one, other;
    load_words(&one, LIST("--trusted-proxies=10.0.0.0/8", "--order-workers=2"), no_words);
    load_words(&other, LIST("--order-workers=3"), no_words);
    assert_false(value_equal(&one.config, &other.config, proxies));
    assert_false(value_equal(&one.config, &other.config, workers));
    assert_true(value_equal(&one.config, &other.config, &config_options[OPTION_redis_url]));
    value_swap(&one.config, &other.config, proxies);
    value_swap(&one.config, &other.config, workers);
    assert_string_equal(one.config.trusted_proxies, "");
    assert_string_equal(other.config.trusted_proxies, "10.0.0.0/8");
    assert_int_equal(one.config.order_workers, 3);
    assert_int_equal(other.config.order_workers, 2);
    load_free(&one);
    load_free(&other);
}

static void test_reference_file_holds_the_defaults(void **state)
{
    (void)state;
    struct load reference, given, none;
    load_words(&reference, LIST("--help-config"), no_words);
    assert_int_equal(reference.result, CONFIG_EXIT);
    for (const char *line = reference.out; *line; line = strchr(line, '\n') + 1)
        assert_true(*line == '#' || *line == '\n');

    char *settings = uncomment(reference.out);
    load_file(&given, settings);
    if (given.result != CONFIG_OK)
        fail_msg("%s", given.err);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char setting[64];
        snprintf(setting, sizeof setting, "\n%s =", names[i]);
        assert_says(settings, setting);
    }
    load_words(&none, no_words, no_words);
    char left[4096], right[4096];
    config_print(&given.config, left, sizeof left);
    config_print(&none.config, right, sizeof right);
    assert_string_equal(left, right);
    free(settings);
    load_free(&reference);
    load_free(&given);
    load_free(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defaults),
        cmocka_unit_test(test_flag_over_environment_over_file),
        cmocka_unit_test(test_overridden_value_is_not_judged),
        cmocka_unit_test(test_flag_names_the_file),
        cmocka_unit_test(test_file_syntax),
        cmocka_unit_test(test_file_mistakes_name_their_line),
        cmocka_unit_test(test_file_limits),
        cmocka_unit_test(test_integers),
        cmocka_unit_test(test_choices),
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_urls),
        cmocka_unit_test(test_lists_of_urls),
        cmocka_unit_test(test_complaint_names_what_was_given),
        cmocka_unit_test(test_log_tells_all_options),
        cmocka_unit_test(test_unknown_flags),
        cmocka_unit_test(test_wrong_secrets_are_not_printed),
        cmocka_unit_test(test_print_masks_secrets),
        cmocka_unit_test(test_token_file),
        cmocka_unit_test(test_long_values_are_refused),
        cmocka_unit_test(test_help_and_version),
        cmocka_unit_test(test_values_compared_and_exchanged),
        cmocka_unit_test(test_reference_file_holds_the_defaults),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* seckillctl top: rates, servers and segments, anew every second. */
#include "ctl/commands/commands.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "ctl/output/answer.h"
#include "ctl/commands/daemon.h"
#include "ctl/http.h"
#include "ctl/commands/sale.h"
#include "ctl/output/say.h"

enum { INTERVAL_S = 1, INTERVAL_S_MAX = 3600, SALES_SHOWN_MAX = 8, FRAMES_MAX = 1000000000 };

#define ORDERS(outcome) "seckill_orders_total{outcome=\"" outcome "\"}"

/* Columns of rates: the outcomes that each sums up. */
static const char *const accepted[] = {ORDERS("accepted"), NULL};
static const char *const sold_out[] = {ORDERS("sold_out"), NULL};
static const char *const refused[] = {
    ORDERS("not_started"), ORDERS("ended"),      ORDERS("paused"),       ORDERS("limit_reached"),
    ORDERS("unknown_sku"), ORDERS("key_reused"), ORDERS("rate_limited"), NULL};
static const char *const failed[] = {ORDERS("overloaded"), ORDERS("unavailable"),
                                     ORDERS("outcome_unknown"), NULL};

struct frames {
    struct context *context;
    struct daemon_state before[DAEMONS_MAX], now[DAEMONS_MAX];
    size_t daemon_count;
    bool terminal;
};

/* ---- the terminal ---- */

static volatile sig_atomic_t ended;
static struct termios saved;

static void end(int number)
{
    (void)number;
    ended = 1;
}

/* Keys come at once and unseen; the cursor is hidden. */
static void enter_terminal(void)
{
    struct sigaction action = {.sa_handler = end};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
    if (tcgetattr(STDIN_FILENO, &saved) == 0) {
        struct termios raw = saved;
        raw.c_lflag &= (tcflag_t) ~(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    fputs("\033[?1049h\033[?25l", stdout);
}

static void leave_terminal(void)
{
    fputs("\033[?25h\033[?1049l", stdout);
    fflush(stdout);
    tcsetattr(STDIN_FILENO, TCSANOW, &saved);
}

/* Waits for the next frame; false when the operator wants no more. */
static bool wait_frame(const struct frames *frames, int64_t interval_s)
{
    struct pollfd keys = {.fd = STDIN_FILENO, .events = POLLIN};
    char key = 0;
    if (!frames->terminal) {
        clock_sleep_ns(interval_s * CLOCK_NS_PER_S);
        return true;
    }
    if (poll(&keys, 1, (int)interval_s * 1000) > 0 && read(STDIN_FILENO, &key, 1) <= 0)
        return false;
    return !ended && key != 'q';
}

/* ---- numbers ---- */

static double rate(const struct frames *frames, size_t daemon, const char *const *names)
{
    const struct daemon_state *before = &frames->before[daemon], *now = &frames->now[daemon];
    double growth = 0;
    for (; *names; names++)
        growth += metrics_growth(&before->metrics, &now->metrics, *names);
    double seconds = (double)(now->at_ns - before->at_ns) / (double)CLOCK_NS_PER_S;
    return seconds > 0 ? growth / seconds : 0;
}

/* Rates need two readings of the same daemon. */
static bool has_rates(const struct frames *frames, size_t daemon)
{
    return frames->before[daemon].metrics.count > 0 && frames->now[daemon].metrics.count > 0;
}

static double quantile_ms(const struct frames *frames, size_t daemon, double quantile)
{
    return 1000 * metrics_quantile(&frames->before[daemon].metrics, &frames->now[daemon].metrics,
                                   "seckill_order_seconds", quantile);
}

/* ---- a frame for readers ---- */

static void add_quantile(struct table *table, double ms)
{
    if (ms < 0)
        table_add(table, "-");
    else
        table_add(table, "%.1f", ms);
}

static void print_daemons(const struct frames *frames)
{
    static const struct column columns[] = {
        {"daemon", false},  {"state", false},     {"redis", false},     {"ledger", false},
        {"queue", true},    {"accepted/s", true}, {"sold out/s", true}, {"refused/s", true},
        {"failed/s", true}, {"p50 ms", true},     {"p99 ms", true},
    };
    static const char *const *const rates[] = {accepted, sold_out, refused, failed};
    struct table table;
    table_begin(&table, columns, sizeof columns / sizeof columns[0]);
    for (size_t i = 0; i < frames->daemon_count; i++) {
        const struct daemon_state *now = &frames->now[i];
        table_add(&table, "%s", now->address->shown);
        table_add(&table, "%s", now->state);
        table_add(&table, "%s", now->redis);
        table_add(&table, "%s", now->ledger);
        table_add(&table, "%.0f", metrics_value(&now->metrics, "seckill_queue_depth"));
        for (size_t j = 0; j < sizeof rates / sizeof rates[0]; j++)
            if (has_rates(frames, i))
                table_add(&table, "%.0f", rate(frames, i, rates[j]));
            else
                table_add(&table, "-");
        add_quantile(&table, quantile_ms(frames, i, 0.5));
        add_quantile(&table, quantile_ms(frames, i, 0.99));
    }
    table_print(&table, stdout);
}

/* The stocks of the sales that are named, else of the first ones that are not over. */
static json_t *read_stocks(struct context *context)
{
    json_t *stocks = json_array(), *sales = NULL, *sale;
    size_t i;
    struct reply reply;
    for (i = 1; i < context->options.argument_count; i++)
        if (sale_read(context, context->options.arguments[i], &reply) == EX_OK) {
            json_array_append(stocks, reply.json);
            reply_free(&reply);
        }
    if (i > 1 || context->config.admin_token[0] == '\0' || sale_read_all(context, &sales) != EX_OK)
        return stocks;
    json_array_foreach(sales, i, sale)
    {
        if (json_array_size(stocks) < SALES_SHOWN_MAX && strcmp(sale_state(sale), "ended") != 0 &&
            sale_read(context, answer_text(sale, "sku"), &reply) == EX_OK) {
            json_array_append(stocks, reply.json);
            reply_free(&reply);
        }
    }
    json_decref(sales);
    return stocks;
}

static void print_stocks(const json_t *stocks)
{
    static const struct column columns[] = {{"sku", false},   {"round", true},
                                            {"state", false}, {"sold", true},
                                            {"left", true},   {"left of each segment", false}};
    struct table table;
    char bar[BAR_SIZE];
    size_t i;
    const json_t *stock;
    if (json_array_size(stocks) == 0)
        return;
    putchar('\n');
    table_begin(&table, columns, sizeof columns / sizeof columns[0]);
    json_array_foreach(stocks, i, stock)
    {
        sale_bar(stock, bar);
        table_add(&table, "%s", answer_text(stock, "sku"));
        table_add(&table, "%lld", (long long)answer_integer(stock, "round"));
        table_add(&table, "%s", sale_state(stock));
        table_add(&table, "%lld", (long long)answer_integer(stock, "sold"));
        table_add(&table, "%lld", (long long)answer_integer(stock, "available"));
        table_add(&table, "%s", bar);
    }
    table_print(&table, stdout);
}

/* ---- a frame for scripts ---- */

static json_t *pack_daemon(const struct frames *frames, size_t daemon)
{
    const struct daemon_state *now = &frames->now[daemon];
    json_t *row = json_pack("{s:s, s:s, s:s, s:s, s:I}", "address", now->address->shown, "status",
                            now->state, "redis", now->redis, "ledger", now->ledger, "queue",
                            (json_int_t)metrics_value(&now->metrics, "seckill_queue_depth"));
    double p50 = quantile_ms(frames, daemon, 0.5), p99 = quantile_ms(frames, daemon, 0.99);
    if (has_rates(frames, daemon)) {
        json_object_set_new(row, "accepted_per_s", json_real(rate(frames, daemon, accepted)));
        json_object_set_new(row, "sold_out_per_s", json_real(rate(frames, daemon, sold_out)));
        json_object_set_new(row, "refused_per_s", json_real(rate(frames, daemon, refused)));
        json_object_set_new(row, "failed_per_s", json_real(rate(frames, daemon, failed)));
    }
    if (p50 >= 0) {
        json_object_set_new(row, "p50_ms", json_real(p50));
        json_object_set_new(row, "p99_ms", json_real(p99));
    }
    return row;
}

static void print_json(const struct frames *frames, json_t *stocks)
{
    json_t *daemons = json_array();
    for (size_t i = 0; i < frames->daemon_count; i++)
        json_array_append_new(daemons, pack_daemon(frames, i));
    json_t *frame = json_pack("{s:o, s:O}", "daemons", daemons, "sales", stocks);
    answer_print(frames->context, frame);
    json_decref(frame);
}

/* ---- all frames ---- */

static void ask(struct frames *frames)
{
    for (size_t i = 0; i < frames->daemon_count; i++) {
        daemon_free(&frames->before[i]);
        frames->before[i] = frames->now[i];
        daemon_ask(frames->context, &frames->context->config.admin[i], &frames->now[i]);
    }
}

static void print_frame(struct frames *frames)
{
    json_t *stocks = read_stocks(frames->context);
    if (has_option(frames->context, OPTION_JSON)) {
        print_json(frames, stocks);
    } else {
        if (frames->terminal)
            fputs("\033[H\033[J", stdout);
        print_daemons(frames);
        print_stocks(stocks);
        if (frames->terminal)
            fputs("\nq ends\n", stdout);
    }
    json_decref(stocks);
    fflush(stdout);
}

/* The first reading only begins the rates. */
static void run(struct frames *frames, int64_t interval_s, int64_t count)
{
    ask(frames);
    if (frames->terminal)
        print_frame(frames);
    while (count > 0 && wait_frame(frames, interval_s) && !ferror(stdout)) {
        ask(frames);
        print_frame(frames);
        count--;
    }
}

int top_run(struct context *context)
{
    const struct options *options = &context->options;
    int64_t interval_s = INTERVAL_S, count = 0;
    bool terminal =
        isatty(STDIN_FILENO) && isatty(STDOUT_FILENO) && !has_option(context, OPTION_JSON);
    if (!options_number(options, OPTION_INTERVAL, 1, INTERVAL_S_MAX, INTERVAL_S, &interval_s) ||
        !options_number(options, OPTION_FRAMES, 1, FRAMES_MAX, terminal ? FRAMES_MAX : 1, &count))
        return EX_USAGE;
    for (size_t i = 1; i < options->argument_count; i++)
        if (!sale_identifier(options->arguments[i], "the sku"))
            return EX_USAGE;
    struct frames *frames = calloc(1, sizeof *frames);
    if (!frames)
        abort();
    frames->context = context;
    frames->daemon_count = context->config.admin_count;
    frames->terminal = terminal;
    if (terminal)
        enter_terminal();
    run(frames, interval_s, count);
    if (terminal)
        leave_terminal();
    bool ready = true;
    for (size_t i = 0; i < frames->daemon_count; i++) {
        ready = ready && daemon_ready(&frames->now[i]);
        daemon_free(&frames->before[i]);
        daemon_free(&frames->now[i]);
    }
    free(frames);
    return ready ? EX_OK : EX_UNAVAILABLE;
}

/* Shows rates, servers and segments, updated every second: seckillctl top. */
#include "ctl/commands/commands.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <termios.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"
#include "ctl/output/answer.h"
#include "ctl/commands/daemon.h"
#include "ctl/http.h"
#include "ctl/commands/sale.h"
#include "ctl/output/table.h"

enum { INTERVAL_S = 1, INTERVAL_S_MAX = 3600, SALES_SHOWN_MAX = 8, FRAMES_MAX = 1000000000 };

#define ORDERS(outcome) "seckill_orders_total{outcome=\"" outcome "\"}"

/* Rates, each over the sum of some outcomes. */
static const struct {
    const char *name;
    const char *outcomes[8]; /* up to NULL */
} rates[] = {
    {"accepted_per_s", {ORDERS("accepted")}},
    {"sold_out_per_s", {ORDERS("sold_out")}},
    {"refused_per_s",
     {ORDERS("not_started"), ORDERS("ended"), ORDERS("paused"), ORDERS("limit_reached"),
      ORDERS("unknown_sku"), ORDERS("key_reused"), ORDERS("rate_limited")}},
    {"failed_per_s", {ORDERS("overloaded"), ORDERS("unavailable"), ORDERS("outcome_unknown")}},
};
enum { RATE_COUNT = sizeof rates / sizeof rates[0] };

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

/* Makes keys arrive at once and unseen, and hides the cursor. */
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

/* Waits for the next frame; false when the operator ends the program. */
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
        growth += metrics_growth(before->metrics, now->metrics, *names);
    double seconds = (double)(now->at_ns - before->at_ns) / (double)CLOCK_NS_PER_S;
    return seconds > 0 ? growth / seconds : 0;
}

/* Rates need two readings of the same daemon. */
static bool has_rates(const struct frames *frames, size_t daemon)
{
    return frames->before[daemon].metrics && frames->now[daemon].metrics;
}

static double quantile_ms(const struct frames *frames, size_t daemon, double quantile)
{
    return 1000 * metrics_quantile(frames->before[daemon].metrics, frames->now[daemon].metrics,
                                   "seckill_order_seconds", quantile);
}

/* ---- a frame ---- */

static json_t *pack_daemon(const struct frames *frames, size_t daemon)
{
    json_t *row = daemon_pack(&frames->now[daemon]);
    double p50 = quantile_ms(frames, daemon, 0.5), p99 = quantile_ms(frames, daemon, 0.99);
    for (size_t i = 0; i < RATE_COUNT && has_rates(frames, daemon); i++)
        json_object_set_new(row, rates[i].name, json_real(rate(frames, daemon, rates[i].outcomes)));
    if (p50 >= 0) {
        json_object_set_new(row, "p50_ms", json_real(p50));
        json_object_set_new(row, "p99_ms", json_real(p99));
    }
    return row;
}

/* Reads the stocks of the named sales, else of the first sales that are not over. */
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

static void print_daemons(const json_t *daemons)
{
    static const struct column columns[] = {
        {"daemon", "address", CELL_TEXT},
        {"state", "status", CELL_TEXT},
        {"redis", "redis", CELL_TEXT},
        {"ledger", "ledger", CELL_TEXT},
        {"queue", "queue", CELL_NUMBER},
        {"refunds due", "refunds_due", CELL_NUMBER},
        {"accepted/s", "accepted_per_s", CELL_NUMBER},
        {"sold out/s", "sold_out_per_s", CELL_NUMBER},
        {"refused/s", "refused_per_s", CELL_NUMBER},
        {"failed/s", "failed_per_s", CELL_NUMBER},
        {"p50 ms", "p50_ms", CELL_TENTHS},
        {"p99 ms", "p99_ms", CELL_TENTHS},
    };
    TABLE_PRINT(columns, daemons);
}

static void print_stocks(const json_t *stocks)
{
    static const struct column columns[] = {
        {"sku", "sku", CELL_TEXT},          {"round", "round", CELL_NUMBER},
        {"state", "state", CELL_TEXT},      {"sold", "sold", CELL_NUMBER},
        {"left", "available", CELL_NUMBER}, {"left of each segment", "bar", CELL_TEXT},
    };
    size_t i;
    json_t *stock;
    if (json_array_size(stocks) == 0)
        return;
    putchar('\n');
    json_array_foreach(stocks, i, stock)
    {
        sale_add_bar(stock);
        json_object_set_new(stock, "state", json_string(sale_state(stock)));
    }
    TABLE_PRINT(columns, stocks);
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
    json_t *daemons = json_array(), *stocks = read_stocks(frames->context);
    for (size_t i = 0; i < frames->daemon_count; i++)
        json_array_append_new(daemons, pack_daemon(frames, i));
    json_t *frame = json_pack("{s:o, s:o}", "daemons", daemons, "sales", stocks);
    if (has_option(frames->context, OPTION_JSON)) {
        answer_print(frames->context, frame);
    } else {
        fputs(frames->terminal ? "\033[H\033[J" : "", stdout);
        print_daemons(daemons);
        print_stocks(stocks);
        fputs(frames->terminal ? "\nq ends\n" : "", stdout);
    }
    json_decref(frame);
    fflush(stdout);
}

/* Runs all frames; the first reading only begins the rates. */
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
    struct frames *frames = memory_must(calloc(1, sizeof *frames));
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

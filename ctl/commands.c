/* Holds the table of commands, and prints the help generated from it. */
#include "ctl/commands.h"

#include <string.h>

#include "ctl/commands/commands.h"
#include "ctl/config.h"
#include "ctl/events/events.h"
#include "ctl/output/say.h"
#include "ctl_completion.h"

#define SETTINGS                                                                                   \
    (OPTION(STARTS) | OPTION(ENDS) | OPTION(LIMIT) | OPTION(PAY_WITHIN) | OPTION(PAUSED) |         \
     OPTION(LATE_PAYMENT) | OPTION(HOLD_MAX) | OPTION(GRACE))
#define UNITS (OPTION(TOTAL) | OPTION(SEGMENTS) | OPTION(KEY))

static int completion_run(struct context *context);
static int help_run(struct context *context);

static const struct command commands[] = {
    {"status", "", 0, 0, 0, PODS_EACH, "shows daemons, servers and sales at a glance", status_run},
    {"top", "[SKU]...", 0, 8, OPTION(INTERVAL) | OPTION(FRAMES), PODS_FIRST,
     "shows rates, servers and segments live, until q", top_run},
    {"sales", "", 0, 0, 0, PODS_EACH, "lists all sales", sales_run},
    {"stock", "SKU", 1, 1, 0, PODS_OF_SKU, "shows what is left of a sale, segment by segment",
     sales_stock},
    {"create", "SKU", 1, 1, SETTINGS | UNITS, PODS_OF_NEW_SKU, "creates a sale of --total units",
     round_create},
    {"reset", "SKU", 1, 1, SETTINGS | UNITS | OPTION(IF_ROUND) | OPTION(END_ROUND) | OPTION(YES),
     PODS_OF_SKU, "begins the next round of a sale", round_reset},
    {"restock", "SKU UNITS", 2, 2, OPTION(KEY), PODS_OF_SKU, "adds units to a sale while it runs",
     round_restock},
    {"pause", "SKU", 1, 1, OPTION(YES), PODS_OF_SKU, "lets a sale take no orders", settings_pause},
    {"resume", "SKU", 1, 1, 0, PODS_OF_SKU, "lets a paused sale go on", settings_resume},
    {"window", "SKU", 1, 1, OPTION(STARTS) | OPTION(ENDS) | OPTION(YES), PODS_OF_SKU,
     "sets when a sale begins and ends", settings_window},
    {"limit", "SKU UNITS", 2, 2, 0, PODS_OF_SKU, "sets what one user may have; none takes it away",
     settings_one},
    {"pay-within", "SKU SECONDS", 2, 2, 0, PODS_OF_SKU, "sets the time to pay; none takes it away",
     settings_one},
    {"late-payment", "SKU retake|refund", 2, 2, 0, PODS_OF_SKU, "sets what money that is late does",
     settings_one},
    {"hold-max", "SKU SECONDS", 2, 2, 0, PODS_OF_SKU,
     "sets how long orders may be held; none lets none be extended", settings_one},
    {"grace", "SKU SECONDS", 2, 2, 0, PODS_OF_SKU,
     "sets how long late money is in time; none takes it away", settings_one},
    {"retire", "SKU", 1, 1, OPTION(REFUNDS_ELSEWHERE) | OPTION(YES), PODS_OF_SKU,
     "ends a sale; its orders stay", round_retire},
    {"order", "ORDER_ID", 1, 1, 0, PODS_OF_ORDER, "shows one order", orders_one},
    {"refund", "ORDER_ID REF", 2, 2, OPTION(RESTOCK) | OPTION(KEEP) | OPTION(YES), PODS_OF_ORDER,
     "notes that a payment is paid back", orders_payment_end},
    {"unpay", "ORDER_ID REF", 2, 2, OPTION(YES), PODS_OF_ORDER, "notes that a payment has failed",
     orders_payment_end},
    {"extend", "ORDER_ID TIME", 2, 2, 0, PODS_OF_ORDER, "lets an order be paid for longer",
     orders_extend},
    {"user", "USER_ID", 1, 1, OPTION(SKU), PODS_ITSELF, "lists the orders of one user",
     orders_of_user},
    {"payments", "[SKU]", 0, 1, OPTION(STATE) | OPTION(ORDER), PODS_ITSELF,
     "lists what was paid, and what is to be paid back", payments_run},
    {"export", "", 0, 0,
     OPTION(SKU) | OPTION(STATUS) | OPTION(AFTER) | OPTION(OUTPUT) | OPTION(SPREADSHEET),
     PODS_ITSELF, "writes all orders as CSV, or as lines of JSON", export_run},
    {"events", "tail [SKU]", 1, 2, OPTION(AFTER) | OPTION(FROM_OLDEST), PODS_ITSELF,
     "follows what happens to orders and sales, until Ctrl-C", events_run},
    {"webhooks",
     "list|show|add|rotate|test|replay|pause|resume|undelivered|retry|discard|remove"
     " [NAME [URL|ID]]",
     1, 3,
     OPTION(TYPE) | OPTION(SKU) | OPTION(BATCH) | OPTION(CONCURRENCY) | OPTION(AFTER) | OPTION(YES),
     PODS_ITSELF, "steers who is sent events", webhooks_run},
    {"reconcile", "SKU", 1, 1, 0, PODS_OF_SKU, "compares Redis with the ledger, and corrects it",
     reconcile_run},
    {"audit", "[SKU]...", 0, ARGUMENTS_MAX - 1,
     OPTION(WAIT) | OPTION(ACKED) | OPTION(PAYMENTS) | OPTION(SETTLED) | OPTION(RECONCILE),
     PODS_ITSELF, "compares orders, units sold, Redis, users, payments", audit_run},
    {"log-level", "[LEVEL]", 0, 1, OPTION(FOR), PODS_EACH,
     "shows or sets the least level of events in the logs", process_log_level},
    {"drain", "[ADDRESS]", 0, 1, OPTION(FOR) | OPTION(STAY) | OPTION(UNDO) | OPTION(YES),
     PODS_FIRST, "ends a daemon without a lost request", process_drain},
    {"token", "rotate|prune FILE", 2, 2, OPTION(YES), PODS_OFFLINE,
     "adds a token to a file, or ends the older ones", token_run},
    {"completion", "bash|zsh", 1, 1, 0, PODS_OFFLINE,
     "prints what a shell needs to complete commands", completion_run},
    {"help", "[COMMAND]", 0, 1, 0, PODS_OFFLINE, "prints this text, or the help of a command",
     help_run},
};
enum {
    COMMAND_COUNT = sizeof commands / sizeof commands[0],
    ARGUMENTS_SHOWN = 17, /* longer ones are only in the help of their command */
};

const struct command *commands_find(const char *name)
{
    for (size_t i = 0; i < COMMAND_COUNT; i++)
        if (strcmp(commands[i].name, name) == 0)
            return &commands[i];
    return REFUSE(NULL, "there is no command %s: seckillctl help lists all", name);
}

bool commands_check(const struct command *command, const struct options *options)
{
    size_t count = options->argument_count - 1;
    uint64_t others = options_given(options) & ~(command->options | OPTIONS_OF_ALL);
    if (others != 0)
        return REFUSE(false, "%s takes no --%s", command->name,
                      option_rows[__builtin_ctzll(others)].name);
    if (count >= command->min && count <= command->max)
        return true;
    return REFUSE(false, "usage: seckillctl %s%s%s", command->name, *command->arguments ? " " : "",
                  command->arguments);
}

static void print_options(uint64_t options, FILE *out)
{
    for (int i = 0; i < OPTION_COUNT; i++) {
        const char *name = option_rows[i].name;
        const char *value = option_rows[i].value;
        if (!(options & (UINT64_C(1) << i)))
            continue;
        int fill = 22 - (int)(strlen(name) + (value ? strlen(value) + 1 : 0));
        fprintf(out, "  --%s%s%s%*s%s\n", name, value ? " " : "", value ? value : "", fill, "",
                option_rows[i].help);
    }
}

static void print_all(FILE *out)
{
    fputs("usage: seckillctl COMMAND [ARGUMENT]... [OPTION]...\n\n"
          "Shows and steers the sales of seckilld over its HTTP interface.\n\n",
          out);
    for (size_t i = 0; i < COMMAND_COUNT; i++) {
        const char *arguments = commands[i].arguments;
        fprintf(out, "  %-12s %-18s %s\n", commands[i].name,
                strlen(arguments) <= ARGUMENTS_SHOWN ? arguments : "...", commands[i].help);
    }
    fputs("\nOptions of every command; \"seckillctl help COMMAND\" has its own:\n", out);
    print_options(OPTIONS_OF_ALL, out);
    fputs("\nLines \"name = value\" of ~/.config/seckillctl, or variables:\n", out);
    for (int i = 0; i < SETTING_COUNT; i++)
        fprintf(out, "  %-17s %-28s %s\n", setting_rows[i].name, setting_rows[i].variable,
                setting_rows[i].help);
    fputs("\nExit status: 0 done, 1 refused or a difference found, 64 usage, 65 bad input,\n"
          "66 no such sale, order, webhook or file, 69 nothing was done, 73 and 74 a file cannot\n"
          "be written, 75 unknown whether it was done, 76 not this service, 77 wrong token,\n"
          "78 configuration.\n",
          out);
}

int commands_help(const char *name, FILE *out)
{
    const struct command *command = name ? commands_find(name) : NULL;
    if (name && !command)
        return EX_USAGE;
    if (!command) {
        print_all(out);
        return EX_OK;
    }
    fprintf(out, "usage: seckillctl %s%s%s [OPTION]...\n\n%s %s.\n\n", command->name,
            *command->arguments ? " " : "", command->arguments, command->name, command->help);
    print_options(command->options | OPTIONS_OF_ALL, out);
    return EX_OK;
}

static int help_run(struct context *context)
{
    return commands_help(argument(context, 1), stdout);
}

static int completion_run(struct context *context)
{
    const char *shell = argument(context, 1);
    bool bash = strcmp(shell, "bash") == 0;
    if (!bash && strcmp(shell, "zsh") != 0)
        return REFUSE(EX_USAGE, "completion takes bash or zsh");
    fputs(bash ? completion_bash : completion_zsh, stdout);
    return EX_OK;
}

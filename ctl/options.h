/* Reads the command line by a table of options. */
#ifndef SECKILL_CTL_OPTIONS_H
#define SECKILL_CTL_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* X(ID, name, value that it takes or NULL, help). The first ones belong to every command. */
/* clang-format off */
#define CTL_OPTIONS(X)                                                                             \
    X(CONFIG, "config", "FILE", "read this configuration file")                                    \
    X(HELP, "help", NULL, "print the help of the command")                                         \
    X(JSON, "json", NULL, "print JSON for scripts")                                                \
    X(POD, "pod", "N", "ask this pod of those in `admin`, counted from 0")                         \
    X(TIMEOUT, "timeout", "SECONDS", "give up a call after this time (30)")                        \
    X(ACKED, "acked", "FILE", "ids of orders that clients saw accepted: CSV of order_id")          \
    X(AFTER, "after", "ID", "begin behind this order or event, or at this cursor")                 \
    X(BATCH, "batch", "N", "events of one request, at most (1)")                                   \
    X(CONCURRENCY, "concurrency", "N", "requests to a receiver at a time, at most (4)")            \
    X(FRAMES, "count", "N", "end after so many frames")                                            \
    X(END_ROUND, "end-round", NULL, "end a round whose orders hold units")                         \
    X(ENDS, "ends", "TIME", "when the sale ends; TIME or none")                                    \
    X(FOR, "for", "SECONDS", "how long: the level holds, or the daemon serves on")                 \
    X(FROM_OLDEST, "from-oldest", NULL, "begin with the oldest event that is kept")                \
    X(GRACE, "grace", "SECONDS", "keep unpaid units so long after the time to pay, or none")       \
    X(HOLD_MAX, "hold-max", "SECONDS", "how long orders may be held by extensions, or none")       \
    X(IF_ROUND, "if-round", "ROUND", "only if this is the present round")                          \
    X(INTERVAL, "interval", "SECONDS", "time between two frames (1)")                              \
    X(KEEP, "keep", "UNITS", "so many units of the order stay paid")                               \
    X(KEY, "key", "KEY", "the Idempotency-Key of an earlier try, to repeat it")                    \
    X(LATE_PAYMENT, "late-payment", "POLICY", "what late money does: retake units, or refund")     \
    X(LIMIT, "limit", "UNITS", "units that one user may have; a number or none")                   \
    X(ORDER, "order", "ORDER_ID", "only payments of this order")                                   \
    X(OUTPUT, "output", "FILE", "write to this file")                                              \
    X(PAUSED, "paused", NULL, "take no orders until resume")                                       \
    X(PAY_WITHIN, "pay-within", "SECONDS", "time to pay; a number or none")                        \
    X(PAYMENTS, "payments", "FILE", "the provider's payments: CSV of payment_ref,order_id")        \
    X(RECONCILE, "reconcile", NULL, "then correct Redis, too")                                     \
    X(REFUNDS_ELSEWHERE, "refunds-elsewhere", NULL, "although payments are to be paid back")       \
    X(RESTOCK, "restock", NULL, "let its units be bought again")                                   \
    X(SEGMENTS, "segments", "N", "into how many segments the units are cut")                       \
    X(SETTLED, "settled", NULL, "a segment that awaits recovery is a difference, too")             \
    X(SKU, "sku", "SKU", "only orders, or events, of this sku")                                    \
    X(SPREADSHEET, "spreadsheet", NULL, "ids as formulas, which spreadsheets leave as they are")   \
    X(STARTS, "starts", "TIME", "when the sale begins; TIME or none")                              \
    X(STAY, "stay", NULL, "let the daemon serve on")                                               \
    X(STATE, "state", "STATE", "only payments that are taken, refund_due, refunded or failed")     \
    X(STATUS, "status", "STATUS", "only reserved, paid, cancelled, expired or refunded orders")    \
    X(TOTAL, "total", "UNITS", "units to sell")                                                    \
    X(TYPE, "type", "TYPE", "only events of this type")                                            \
    X(UNDO, "undo", NULL, "let a daemon that is draining serve on")                                \
    X(WAIT, "wait", "SECONDS", "look again for so long while the sale moves (10)")                 \
    X(YES, "yes", NULL, "do not ask")
/* clang-format on */

#define CTL_OPTION_ID(id, name, value, help) OPTION_##id,
enum ctl_option { CTL_OPTIONS(CTL_OPTION_ID) OPTION_COUNT };
#undef CTL_OPTION_ID

/* A set of options: OPTION(JSON) | OPTION(YES). */
#define OPTION(id) (UINT64_C(1) << OPTION_##id)
#define OPTIONS_OF_ALL                                                                             \
    (OPTION(CONFIG) | OPTION(HELP) | OPTION(JSON) | OPTION(POD) | OPTION(TIMEOUT))

enum { ARGUMENTS_MAX = 32, GIVEN_MAX = 128 };

struct options {
    /* NULL: not given; an option without a value: its name; one that is given again: the last. */
    const char *values[OPTION_COUNT];
    struct {
        enum ctl_option option;
        const char *value;
    } given[GIVEN_MAX]; /* all, in the order of the command line */
    size_t given_count;
    const char *arguments[ARGUMENTS_MAX]; /* the command is the first */
    size_t argument_count;
};

/* Reads the command line, options and arguments in any order; everything after -- is an argument.
 * The texts stay the caller's. False after a message on standard error. Not reentrant. */
bool options_read(struct options *options_out, int argc, char **argv);

/* The set of options that were given. */
uint64_t options_given(const struct options *options);

/* The table above. */
extern const struct option_row {
    const char *name;
    const char *value; /* as the help calls it; NULL for an option without one */
    const char *help;
} option_rows[OPTION_COUNT];

/* Reads a whole number from min to max; false for anything else. */
bool number_parse(const char *text, int64_t min, int64_t max, int64_t *number_out);

/* The option's number; `otherwise` when it was not given. False after a message. */
bool options_number(const struct options *options, enum ctl_option option, int64_t min, int64_t max,
                    int64_t otherwise, int64_t *number_out);

#endif

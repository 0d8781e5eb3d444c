/* Manages the rounds of a sale and their units: seckillctl create, reset, restock, retire.
 *
 * why_two_questions: only a refused reset reports how many orders it would end. So the first reset
 * does not end a round in use; a second one, sent after the refusal was shown, does. */
#define _GNU_SOURCE /* asprintf */
#include "ctl/commands/commands.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/identifier.h"
#include "ctl/output/answer.h"
#include "ctl/http.h"
#include "ctl/commands/sale.h"

#define RESET_PATH "/admin/stock/reset"

enum {
    UNITS_MAX = 10000000,
    SEGMENTS_MAX = 1024,
    SEGMENTS = 20, /* of a new sale with enough units */
    PATH_SIZE = 160,
    OPTIONS_SIZE = 256,
    USE_SIZE = 256,
    REFUNDS_COUNTED_MAX = 1000,
};

/* ---- keys ---- */

/* Takes the key of an earlier try, or makes one. False after a message. */
static bool choose_key(const struct context *context, char key_out[IDENTIFIER_SIZE])
{
    const char *given = context->options.values[OPTION_KEY];
    if (given) {
        snprintf(key_out, IDENTIFIER_SIZE, "%s", given);
        return sale_identifier(given, "--key");
    }
    return token_make(stpcpy(key_out, "ctl-"));
}

/* ---- the call ---- */

/* Writes the options that make a repeat by hand the same call: +30m would be another time then, and
 * a reset takes settings that it is not told from the sale. */
static void write_options(const json_t *body, const char *key, char *out, size_t size)
{
    const char *starts = answer_text(body, "starts_at"), *ends = answer_text(body, "ends_at");
    char reset[OPTIONS_SIZE] = "";
    if (answer_integer(body, "if_round") > 0)
        snprintf(reset, sizeof reset, "--total %lld --segments %lld --if-round %lld%s ",
                 answer_integer(body, "total"), answer_integer(body, "segments"),
                 answer_integer(body, "if_round"),
                 json_is_true(json_object_get(body, "end_round")) ? " --end-round" : "");
    snprintf(out, size, "%s%s%s%s%s%s%s--key %s", reset, *starts ? "--starts " : "", starts,
             *starts ? " " : "", *ends ? "--ends " : "", ends, *ends ? " " : "", key);
}

/* Makes the call; Ctrl-C meanwhile prints how to repeat it. */
static void call_interruptible(struct context *context, const struct call *call,
                               const char *options, struct reply *reply_out)
{
    char *line = answer_repeat(context, options), *text = NULL;
    if (asprintf(&text,
                 "\nseckillctl: interrupted: it is unknown whether the call was done\n"
                 "seckillctl: %s\n",
                 line) < 0)
        abort();
    say_on_signal(text);
    http_call(context->http, call, reply_out);
    say_on_signal_no_more();
    free(text);
    free(line);
}

/* Sends the body with its key, and shows the sale. The caller frees the reply. */
static int send(struct context *context, const char *path, const json_t *body,
                struct reply *reply_out)
{
    char key[IDENTIFIER_SIZE], options[2 * OPTIONS_SIZE];
    *reply_out = (struct reply){.outcome = OUTCOME_FAILED};
    if (!choose_key(context, key))
        return EX_USAGE;
    struct call call = {
        .class = CLASS_ADMIN, .method = "POST", .path = path, .body = body, .key = key};
    write_options(body, key, options, sizeof options);
    call_interruptible(context, &call, options, reply_out);
    if (strcmp(reply_out->code, "round_in_use") == 0)
        return EX_REFUSED; /* the caller says more than the refusal */
    int status = answer_check(context, reply_out, options);
    if (status == EX_OK)
        answer_print_row(context, reply_out->json, sale_print);
    return status;
}

/* ---- create ---- */

/* Reads --total and --segments; without them `total` and `segments` keep their values. */
static bool read_units(const struct context *context, int64_t *total, int64_t *segments)
{
    const struct options *options = &context->options;
    if (!options_number(options, OPTION_TOTAL, 1, UNITS_MAX, *total, total) ||
        !options_number(options, OPTION_SEGMENTS, 1, SEGMENTS_MAX, *segments, segments))
        return false;
    if (*segments > *total && !has_option(context, OPTION_SEGMENTS))
        *segments = *total;
    return true;
}

static json_t *make_body(const struct context *context, const char *sku, int64_t total,
                         int64_t segments, int64_t if_round)
{
    json_t *body = json_pack("{s:s, s:I, s:I, s:I}", "sku", sku, "total", (json_int_t)total,
                             "segments", (json_int_t)segments, "if_round", (json_int_t)if_round);
    if (settings_add(&context->options, body))
        return body;
    json_decref(body);
    return NULL;
}

int round_create(struct context *context)
{
    const char *sku = sale_argument(context, 1);
    int64_t total = 0, segments = SEGMENTS;
    struct reply reply;
    if (!sku || !read_units(context, &total, &segments))
        return EX_USAGE;
    if (total == 0)
        return REFUSE(EX_USAGE, "--total UNITS is needed");
    json_t *body = make_body(context, sku, total, segments, 0);
    if (!body)
        return EX_USAGE;
    int status = send(context, RESET_PATH, body, &reply);
    if (strcmp(reply.code, "round_mismatch") == 0)
        say("the sale is there already, in round %lld: see seckillctl reset",
            answer_integer(reply.json, "round"));
    json_decref(body);
    reply_free(&reply);
    return status;
}

/* ---- reset ---- */

static void write_use(const json_t *problem, char use_out[USE_SIZE])
{
    const char *more = json_is_false(json_object_get(problem, "counted")) ? "at least " : "";
    snprintf(use_out, USE_SIZE,
             "ends round %lld with %s%lld paid orders, which stay paid, and %s%lld reserved ones, "
             "which expire",
             answer_integer(problem, "round"), more, answer_integer(problem, "paid"), more,
             answer_integer(problem, "reserved"));
}

/* Ends a round whose orders hold units only if the operator has said so. */
static int end_round(struct context *context, json_t *body, const struct reply *refusal)
{
    char use[USE_SIZE];
    struct reply reply;
    write_use(refusal->json, use);
    if (has_option(context, OPTION_YES) && !has_option(context, OPTION_END_ROUND)) {
        say("round_in_use: the reset %s", use);
        return REFUSE(EX_REFUSED,
                      "not done: --yes alone does not end a round in use; --end-round does");
    }
    int status = CONFIRM(context, "the reset %s", use);
    if (status != EX_OK)
        return status;
    json_object_set_new(body, "end_round", json_true());
    status = send(context, RESET_PATH, body, &reply);
    reply_free(&reply);
    return status;
}

/* A repeat returns the earlier try's answer at once. */
static int reset_sale(struct context *context, const char *sku, json_t *body, const json_t *stock)
{
    struct reply reply;
    bool repeats = has_option(context, OPTION_KEY);
    int status = CONFIRM(
        context, "%sresets %s: round %lld has sold %lld of %lld units; a new round has %lld",
        repeats ? "repeats what " : "", sku, answer_integer(stock, "round"),
        answer_integer(stock, "sold"), answer_integer(stock, "total"),
        answer_integer(body, "total"));
    if (status != EX_OK)
        return status;
    if (repeats && has_option(context, OPTION_END_ROUND))
        json_object_set_new(body, "end_round", json_true());
    status = send(context, RESET_PATH, body, &reply);
    if (strcmp(reply.code, "round_in_use") == 0)
        status = end_round(context, body, &reply);
    else if (strcmp(reply.code, "round_mismatch") == 0)
        say("the sale is in round %lld now", answer_integer(reply.json, "round"));
    reply_free(&reply);
    return status;
}

int round_reset(struct context *context)
{
    const char *sku = sale_argument(context, 1);
    struct reply stock;
    json_t *body = NULL;
    int status = sku ? sale_read(context, sku, &stock) : EX_USAGE;
    if (status != EX_OK)
        return status;
    int64_t total = answer_integer(stock.json, "total"), round = 0;
    int64_t segments = (int64_t)json_array_size(json_object_get(stock.json, "segments"));
    if (read_units(context, &total, &segments) &&
        options_number(&context->options, OPTION_IF_ROUND, 1, UINT32_MAX,
                       answer_integer(stock.json, "round"), &round))
        body = make_body(context, sku, total, segments, round);
    status = body ? reset_sale(context, sku, body, stock.json) : EX_USAGE;
    json_decref(body);
    reply_free(&stock);
    return status;
}

/* ---- restock, retire ---- */

int round_restock(struct context *context)
{
    const char *sku = sale_argument(context, 1);
    int64_t units = 0;
    struct reply reply;
    if (!sku)
        return EX_USAGE;
    if (!number_parse(argument(context, 2), 1, UNITS_MAX, &units))
        return REFUSE(EX_USAGE, "the units must be a whole number from 1 to %d", UNITS_MAX);
    json_t *body = json_pack("{s:s, s:I}", "sku", sku, "units", (json_int_t)units);
    int status = send(context, "/admin/stock/add", body, &reply);
    json_decref(body);
    reply_free(&reply);
    return status;
}

static void say_in_use(const char *sku, const struct reply *reply)
{
    long long due = answer_integer(reply->json, "refunds_due");
    if (strcmp(reply->code, "sale_in_use") == 0)
        say("%lld orders are reserved: pay, cancel or expire them first",
            answer_integer(reply->json, "reserved"));
    if (strcmp(reply->code, "refunds_due") == 0) {
        say("%s%lld payments of its orders are to be paid back: seckillctl payments %s --state "
            "refund_due lists them, and seckillctl refund notes each that has been paid back",
            due < REFUNDS_COUNTED_MAX ? "" : "at least ", due, sku);
        say("--refunds-elsewhere retires the sale all the same; they stay listed as due");
    }
}

/* A repeat finds no sale when an earlier try has retired it. */
static int delete_sale(struct context *context, const char *sku)
{
    char path[PATH_SIZE];
    struct reply reply;
    json_t *body = has_option(context, OPTION_REFUNDS_ELSEWHERE)
                       ? json_pack("{s:b}", "refunds_elsewhere", 1)
                       : NULL;
    snprintf(path, sizeof path, "/admin/sale/%s", sku);
    struct call call = {.class = CLASS_ADMIN, .method = "DELETE", .path = path, .body = body};
    http_call(context->http, &call, &reply);
    json_decref(body);
    int status = EX_OK;
    if (!reply.repeated || strcmp(reply.code, "unknown_sku") != 0)
        status = answer_check(context, &reply, NULL);
    if (status == EX_OK && reply.outcome == OUTCOME_OK && has_option(context, OPTION_JSON))
        answer_print(context, reply.json);
    else if (status == EX_OK)
        printf("%s is retired\n", sku);
    say_in_use(sku, &reply);
    reply_free(&reply);
    return status;
}

int round_retire(struct context *context)
{
    struct reply stock;
    const char *sku = sale_argument(context, 1);
    int status = sku ? sale_read(context, sku, &stock) : EX_USAGE;
    if (status != EX_OK)
        return status;
    status = CONFIRM(context,
                     "retires %s: ends its round %lld, which has sold %lld of %lld units; "
                     "its orders stay",
                     sku, answer_integer(stock.json, "round"), answer_integer(stock.json, "sold"),
                     answer_integer(stock.json, "total"));
    reply_free(&stock);
    return status == EX_OK ? delete_sale(context, sku) : status;
}

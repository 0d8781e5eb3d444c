/* Checks what the clients of daemons are told, request by request: one answer each, in time, and
 * the right one for what has become of the order. */
#include "test/simulate/promise_request.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/calls/calls.h"
#include "service/request/prepared.h"
#include "stock/returns/returns.h"
#include "test/simulate/machine/chance.h"
#include "test/simulate/machine/loop.h"
#include "test/simulate/promise_events.h"
#include "test/simulate/promise_pay.h"
#include "test/simulate/servers/seam_http.h"
#include "test/simulate/story.h"
#include "test/simulate/tally.h"

enum {
    STEP_MS = 2,       /* of an HTTP thread */
    LOOK_AGE_MS = 100, /* of what is told of the stock */
    PATIENT_MS = 1000, /* a deadline that nothing but a fault should reach */
    ANSWER_SIZE = 1024,
};

static struct asked *all[ASKED_MAX];
static size_t count;

void promise_requests_begin(void)
{
    count = 0;
}

struct asked *promise_ask(const struct process *process, unsigned deadline_ms)
{
    assert(count < ASKED_MAX);
    struct asked *asked = calloc(1, sizeof *asked);
    asked->number = (uint32_t)count + 1;
    asked->process = process;
    asked->incarnation = process->incarnation;
    asked->since_ns = loop_now_ns();
    asked->deadline_ms = deadline_ms;
    all[count++] = asked;
    return asked;
}

void promise_unasked(struct asked *asked)
{
    assert(count > 0 && all[count - 1] == asked);
    count--;
}

struct asked *promise_asked(size_t i)
{
    return i < count ? all[i] : NULL;
}

size_t promise_asked_count(void)
{
    return count;
}

bool promise_asked_lost(const struct asked *asked)
{
    return !asked->process->alive || asked->process->incarnation != asked->incarnation;
}

/* ---- with a worker ---- */

void promise_taken(struct asked *asked, struct given *given)
{
    if (asked->answered && asked->nothing_done)
        promise_break("request %u is carried out, and its client was told that nothing was done",
                      asked->number);
    else if (asked->answered)
        promise_break("request %u is tried again after its answer", asked->number);
    given->until_ns = asked->read_ns + asked->deadline_ms * LOOP_MS;
    asked->last = given;
}

/* ---- the answer ---- */

/* An answer as its client reads it. */
struct told {
    unsigned status;
    char code[32];
    uint64_t order_id;
    char text[ANSWER_SIZE];
};

static void read_member(const char *text, const char *name, char *value_out, size_t size)
{
    const char *at = strstr(text, name);
    value_out[0] = '\0';
    if (at)
        snprintf(value_out, size, "%.*s", (int)strcspn(at + strlen(name), "\","),
                 at + strlen(name));
}

static void read_prepared(const struct prepared *prepared, struct told *told)
{
    size_t length = 0;
    const char *text = seam_http_text(prepared_response(prepared, &told->status, &length));
    snprintf(told->text, sizeof told->text, "%.*s", (int)length, text);
}

static void read_answer(const struct answer *answer, struct told *told)
{
    char id[24];
    *told = (struct told){.status = answer->status};
    if (answer->problem != PROBLEM_NONE)
        problem_text(answer->problem, NULL, "", told->text, sizeof told->text);
    else if (answer->prepared)
        read_prepared(answer->prepared, told);
    else
        snprintf(told->text, sizeof told->text, "%.*s", (int)answer->length, answer->text);
    read_member(told->text, "\"code\":\"", told->code, sizeof told->code);
    read_member(told->text, "\"order_id\":\"", id, sizeof id);
    told->order_id = strtoull(id, NULL, 10);
}

/* ---- when ---- */

/* A process that sleeps answers when it is awake again. */
static void check_time(const struct asked *asked, bool late)
{
    int64_t now_ns = loop_now_ns(), step_ns = STEP_MS * LOOP_MS;
    int64_t until_ns = asked->read_ns + asked->deadline_ms * LOOP_MS;
    int64_t awake_ns = asked->process->asleep_until_ns;
    if (now_ns > (until_ns > awake_ns ? until_ns : awake_ns) + step_ns)
        promise_break("request %u is answered %lld ms after its deadline", asked->number,
                      (long long)((now_ns - until_ns) / LOOP_MS));
    if (late && !asked->hurried && now_ns < until_ns)
        promise_break("request %u is answered %lld ms before its deadline as if that had come",
                      asked->number, (long long)((until_ns - now_ns) / LOOP_MS));
}

/* ---- what ---- */

#define OUTCOMES(X)                                                                                \
    X(ACCEPTED, 201, "")                                                                           \
    X(REPLAYED, 200, "")                                                                           \
    X(KEY_REUSED, 422, "idempotency_key_reused")                                                   \
    X(SOLD_OUT, 409, "sold_out")                                                                   \
    X(NOT_STARTED, 409, "sale_not_started")                                                        \
    X(ENDED, 409, "sale_ended")                                                                    \
    X(PAUSED, 409, "sale_paused")                                                                  \
    X(COUNTING, 503, "unavailable")                                                                \
    X(LIMIT, 409, "limit_reached")                                                                 \
    X(RATE_LIMITED, 429, "rate_limited")                                                           \
    X(UNKNOWN_SKU, 404, "unknown_sku")                                                             \
    X(AGAIN, 503, "unavailable")                                                                   \
    X(UNAVAILABLE, 503, "unavailable")                                                             \
    X(IN_DOUBT, 503, "outcome_unknown")

#define OUTCOME_ROW(name, status, code) [STOCK_##name] = {status, code},
static const struct {
    unsigned status;
    const char *code;
} answers[] = {OUTCOMES(OUTCOME_ROW)};

static bool is_told(const struct told *told, unsigned status, const char *code)
{
    return told->status == status && strcmp(told->code, code) == 0;
}

/* A worker decided the order: its client is told how, with the order's id where there may be an
 * order. */
static void check_decided(struct asked *asked, const struct told *told)
{
    const struct given *last = asked->last;
    enum stock_outcome outcome = last->outcome;
    if (!last->answered) {
        promise_break("request %u is answered %u %s while a worker has it", asked->number,
                      told->status, told->code);
        return;
    }
    /* Its time was over: then it counts as one that no worker took. */
    bool over = outcome == STOCK_AGAIN && loop_now_ns() >= last->until_ns;
    bool untaken = over && is_told(told, 503, "overloaded");
    if (!untaken && !is_told(told, answers[outcome].status, answers[outcome].code))
        promise_break("request %u is answered %u %s, and its worker decided %u %s", asked->number,
                      told->status, told->code, answers[outcome].status, answers[outcome].code);
    bool own = outcome == STOCK_ACCEPTED || outcome == STOCK_IN_DOUBT;
    if (own && told->order_id != last->order_id)
        promise_break("request %u is answered with order %llu, and it is order %llu", asked->number,
                      (unsigned long long)told->order_id, (unsigned long long)last->order_id);
    if (outcome == STOCK_REPLAYED)
        promise_replayed(last, told->order_id);
    asked->outcome = outcome == STOCK_IN_DOUBT ? STOCK_OPEN : outcome;
}

static void check_first_try(const struct asked *asked)
{
    struct given given = {.qty = asked->qty, .since_ns = asked->since_ns};
    strcpy(given.sku, asked->sku);
    strcpy(given.user_id, asked->user_id);
    strcpy(given.key, asked->key);
    promise_refused(&given);
}

/* No worker has seen the order: memory, or the end of the daemon's patience, has refused it. */
static void check_at_once(struct asked *asked, const struct told *told)
{
    if (is_told(told, 409, "sold_out")) {
        asked->outcome = STOCK_SOLD_OUT;
        tally("sold out at once");
        check_first_try(asked);
        promise_sold_out(asked->sku, asked->qty, asked->since_ns, asked->process);
    } else if (is_told(told, 503, "overloaded") || is_told(told, 503, "unavailable")) {
        tally("refused at once");
    } else if (is_told(told, 409, "sale_not_started") || is_told(told, 409, "sale_ended") ||
               is_told(told, 409, "sale_paused")) {
        asked->outcome = STOCK_PAUSED;
        tally("closed at once");
        check_first_try(asked);
        promise_closed(asked->sku, asked->since_ns, asked->process);
    } else {
        promise_break("request %u is answered %u %s, and no worker has seen it", asked->number,
                      told->status, told->code);
    }
}

/* Its deadline came. Whatever a worker has taken and not put back may be done: its client gets the
 * id to ask later. Of what none has, nothing was done. */
static void check_late(struct asked *asked, const struct told *told)
{
    const struct given *last = asked->last;
    const uint32_t *struck;
    bool taken = last && !(last->answered && last->outcome == STOCK_AGAIN);
    if (chance_struck(&struck) == 0 && asked->deadline_ms >= PATIENT_MS && !asked->hurried)
        promise_break("request %u is not answered before its deadline, and nothing had failed",
                      asked->number);
    tally(taken ? "deadline of a taken order" : "deadline of a waiting order");
    if (taken && !is_told(told, 503, "outcome_unknown"))
        promise_break("request %u is answered %u %s at its deadline, and a worker had taken it",
                      asked->number, told->status, told->code);
    if (taken && told->order_id != last->order_id)
        promise_break("request %u is answered with order %llu at its deadline, and it is %llu",
                      asked->number, (unsigned long long)told->order_id,
                      (unsigned long long)last->order_id);
    if (!taken && !is_told(told, 503, "overloaded") && !is_told(told, 503, "unavailable"))
        promise_break("request %u is answered %u %s at its deadline, and no worker had it",
                      asked->number, told->status, told->code);
}

static void check_look(const struct asked *asked, const struct told *told, bool late)
{
    char left[16], round[16];
    if (told->status != 200 || late) {
        tally("look refused");
        return;
    }
    tally("look answered");
    read_member(told->text, "\"available\":", left, sizeof left);
    read_member(told->text, "\"round\":", round, sizeof round);
    promise_stock(asked->sku, (uint32_t)strtoul(round, NULL, 10), (uint32_t)strtoul(left, NULL, 10),
                  loop_now_ns() - LOOK_AGE_MS * LOOP_MS, asked->process);
}

/* ---- changes of orders ---- */

/* What its client was told, as a worker's change has it. */
static void read_change(const struct asked *asked, const struct told *told,
                        struct stock_status_change *change)
{
    char state[16], latest[LEDGER_TIME_SIZE];
    memset(change, 0, sizeof *change);
    change->record.order_id = asked->order_id;
    change->payment.ref = asked->ref;
    change->keep = asked->keep;
    change->restock = asked->restock;
    change->extension.expires_ms = asked->expires_ms;
    change->result = STOCK_STATE_FAILED;
    read_member(told->text, told->status == 200 ? "\"status\":\"" : "\"order_status\":\"",
                change->record.status, sizeof change->record.status);
    read_member(told->text, "\"payment_state\":\"", state, sizeof state);
    read_member(told->text, "\"latest\":\"", latest, sizeof latest);
    change->payment.state = ledger_payment_state_of(state);
    if (told->status == 200)
        change->result = STOCK_STATE_OK;
    else if (told->status == 503)
        change->result =
            strcmp(told->code, "outcome_unknown") == 0 ? STOCK_STATE_IN_DOUBT : STOCK_STATE_FAILED;
    else if (is_told(told, 409, "hold_limit_reached"))
        change->result = STOCK_STATE_HOLD_LIMIT;
    else if (told->status == 409)
        change->result = STOCK_STATE_REFUSED;
    else if (is_told(told, 422, "keep_too_large"))
        change->result = STOCK_STATE_KEEP_LIMIT;
    else if (is_told(told, 404, "unknown_payment"))
        change->result = STOCK_STATE_NO_PAYMENT;
    else if (is_told(told, 404, "unknown_order"))
        change->result = STOCK_STATE_NO_ORDER;
    if (change->result == STOCK_STATE_HOLD_LIMIT &&
        !sale_time_parse(latest, &change->extension.latest_ms))
        promise_break("request %u is not told how long the order may be held", asked->number);
}

/* What a payment with a name was answered. */
static void check_payment(const struct asked *asked, const struct told *told,
                          struct stock_status_change *change)
{
    char ref[16];
    bool answered = change->result == STOCK_STATE_OK ||
                    (change->result == STOCK_STATE_REFUSED && asked->kind == ASKED_PAY);
    read_member(told->text, "\"payment_ref\":\"", ref, sizeof ref);
    if (answered && strcmp(ref, asked->ref) != 0)
        promise_break("request %u of payment %s is answered with \"%s\"", asked->number, asked->ref,
                      ref);
    bool retaken = strstr(told->text, "\"retaken\":true") != NULL;
    if (asked->kind != ASKED_PAY)
        return;
    if (told->status == 200) {
        change->payment.state = LEDGER_PAYMENT_TAKEN;
        /* Else in time, or one that was due and pays in the place of another. */
        change->payment.outcome = retaken ? LEDGER_RETAKEN : LEDGER_OUTCOME_NONE;
    } else if (is_told(told, 409, "payment_too_late")) {
        change->payment.outcome = LEDGER_TOO_LATE;
    } else if (is_told(told, 409, "already_paid")) {
        change->payment.outcome = LEDGER_ALREADY_PAID;
    } else if (is_told(told, 409, "payment_failed") !=
                   (change->payment.state == LEDGER_PAYMENT_FAILED) ||
               (is_told(told, 409, "invalid_state") &&
                change->payment.state != LEDGER_PAYMENT_REFUNDED)) {
        promise_break("request %u is answered %u %s, and payment %s is %s", asked->number,
                      told->status, told->code, asked->ref,
                      ledger_payment_state_name(change->payment.state));
    }
}

/* What is told of an order's status is so on the disk, and stays so if it is final. An order that
 * is there is not unknown. */
static void check_told_change(const struct asked *asked, const struct told *told)
{
    struct stock_status_change change;
    read_change(asked, told, &change);
    if (asked->ref[0] != '\0')
        check_payment(asked, told, &change);
    if (asked->kind == ASKED_PAY)
        promise_state(&change, "paid");
    else if (asked->kind == ASKED_CANCEL && asked->keep == 0)
        promise_state(&change, "cancelled");
    if (asked->kind == ASKED_PAY && asked->ref[0] != '\0')
        promise_payment(&change, asked->since_ns);
    else if (asked->kind == ASKED_CANCEL && asked->keep > 0)
        promise_kept(&change);
    else if (asked->kind == ASKED_REFUND)
        promise_refund(&change, asked->since_ns);
    else if (asked->kind == ASKED_UNPAY)
        promise_unpay(&change, asked->since_ns);
    else if (asked->kind == ASKED_EXTEND)
        promise_extend(&change, asked->since_ns);
}

/* ---- events ---- */

static void check_events(struct asked *asked, const struct told *told, const struct answer *answer,
                         bool late)
{
    const uint32_t *struck;
    if (told->status == 200) {
        uint64_t before = asked->after;
        asked->after = promise_feed(before, answer->text, answer->length);
        if (asked->after > before + asked->limit)
            promise_break("request %u is told of %llu events, not %u at most", asked->number,
                          (unsigned long long)(asked->after - before), asked->limit);
        return;
    }
    tally("reader refused");
    if (told->status != 503)
        promise_break("request %u for the events behind %llu is answered %u %s", asked->number,
                      (unsigned long long)asked->after, told->status, told->code);
    if (late && chance_struck(&struck) == 0 && !asked->hurried &&
        asked->deadline_ms - asked->wait_s * 1000 >= PATIENT_MS) /* what is left for the answer */
        promise_break("request %u for events is not answered before its deadline, and nothing had "
                      "failed",
                      asked->number);
}

static void check_change(const struct asked *asked, const struct told *told, bool late)
{
    if (is_told(told, 404, "unknown_order"))
        promise_unknown(asked->order_id, asked->since_ns);
    else if (told->status != 200 && told->status != 409 && told->status != 503 &&
             !is_told(told, 404, "unknown_payment") && !is_told(told, 422, "keep_too_large"))
        promise_break("request %u is answered %u %s", asked->number, told->status, told->code);
    if (late && !is_told(told, 503, asked->held ? "outcome_unknown" : "unavailable"))
        promise_break("request %u is answered %u %s at its deadline, and a worker %s it",
                      asked->number, told->status, told->code, asked->held ? "had" : "never had");
    tally(late                  ? "deadline of a change"
          : told->status == 503 ? "change refused"
                                : "change answered");
    check_told_change(asked, told);
}

void promise_told(struct asked *asked, const struct answer *answer, bool late)
{
    struct told told;
    read_answer(answer, &told);
    static const char *const kinds[ASKED_KINDS] = {"order",  "look at", "pay",    "cancel",
                                                   "refund", "unpay",   "extend", "read on for"};
    story("  request %u of %s: %s %u of %s%s%s: %u %s%s", asked->number, asked->user_id,
          kinds[asked->kind], asked->qty, asked->sku, asked->key[0] ? ", key " : "", asked->key,
          told.status, told.code, late ? ", at its deadline" : "");
    if (asked->answered)
        promise_break("request %u is answered twice", asked->number);
    asked->answered = true;
    asked->nothing_done = told.status == 503 && strcmp(told.code, "outcome_unknown") != 0;
    check_time(asked, late);
    if (asked->kind == ASKED_STOCK)
        check_look(asked, &told, late);
    else if (asked->kind == ASKED_EVENTS)
        check_events(asked, &told, answer, late);
    else if (asked->kind != ASKED_ORDER)
        check_change(asked, &told, late);
    else if (late)
        check_late(asked, &told);
    else if (asked->last)
        check_decided(asked, &told);
    else
        check_at_once(asked, &told);
    if (asked->kind == ASKED_ORDER && is_told(&told, 503, "outcome_unknown") && told.order_id == 0)
        promise_break("request %u is answered as unknown, without an id", asked->number);
}

void promise_stopped(const struct process *process)
{
    for (size_t i = 0; i < count; i++)
        if (!all[i]->answered && all[i]->process == process && !promise_asked_lost(all[i]))
            promise_break("request %u was never answered", all[i]->number);
}

/* Limits the orders per user and per client address, with one call for a whole batch.
 *
 * why_buckets: in a cluster a call has its keys in one slot, and all orders of all daemons ask. So
 * there users and addresses are spread by their hashes over buckets, each with its own slot, and a
 * batch asks one question for each bucket that it needs. An order whose user and address are in
 * different buckets is asked for twice; when one answer refuses it, the other has counted it all
 * the same, which lets fewer orders through and never more. */
#include "stock/orders/orders.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/text.h"

enum {
    SUBJECTS_MAX = 2 * STOCK_BATCH_MAX,
    KEYS = 4,
    FIXED = 6,    /* arguments between the keys and the subjects */
    SLOTS = 2048, /* of the table that finds a subject again: a power of two, half of it used */
    KEY_SIZE = 64,
};

static const int64_t MINUTE_US = 60000000;

static const char *const fields[KEYS] = {"users", "users:older", "addresses", "addresses:older"};

static_assert(KEYS + FIXED + SUBJECTS_MAX <= SCRIPT_MORE_MAX, "a call has room for a batch");
static_assert(SUBJECTS_MAX < 4096, "two digits of base 64 number a subject");

struct subjects {
    size_t count;
    uint16_t slots[SLOTS]; /* the subject's number, from 1; 0: free */
    const char *names[STOCK_BATCH_MAX];
};

struct limits {
    unsigned user_per_min, user_burst;
    unsigned address_per_min, address_burst;
};

/* One call: the orders of a bucket, by its keys. */
struct question {
    char keys[KEYS][KEY_SIZE];
    size_t count;
    size_t call;                      /* its place in the pipeline */
    uint16_t orders[STOCK_BATCH_MAX]; /* their places in rate->orders */
    struct subjects users, addresses;
    uint16_t user_of[STOCK_BATCH_MAX], address_of[STOCK_BATCH_MAX]; /* from 1; 0: not limited */
    char numbers[5][24];
    char places[4 * STOCK_BATCH_MAX + 1];
    const char *parameters[KEYS + FIXED + SUBJECTS_MAX];
    int64_t refused[4 * STOCK_BATCH_MAX];
};

struct rate {
    const struct stock_rates *rates;
    struct limits limits; /* as of the post of the present batch */
    struct stock_order *orders[STOCK_BATCH_MAX];
    size_t count;
    bool posted;
    size_t buckets;
    struct question questions[]; /* one for each bucket */
};

/* All of Redis is one bucket, unless it is a cluster. */
static void name_keys(struct rate *rate, size_t bucket)
{
    char tag[16] = "rate";
    if (rate->buckets > 1)
        snprintf(tag, sizeof tag, "rate:%02zu", bucket);
    for (size_t i = 0; i < KEYS; i++)
        snprintf(rate->questions[bucket].keys[i], KEY_SIZE, STOCK_PREFIX "{%s}:%s", tag, fields[i]);
}

struct rate *rate_open(const struct stock_rates *rates, bool cluster)
{
    if (!rates)
        return NULL;
    size_t buckets = cluster ? STOCK_RATE_BUCKETS : 1;
    struct rate *rate = memory_must(calloc(1, sizeof *rate + buckets * sizeof *rate->questions));
    rate->rates = rates;
    rate->buckets = buckets;
    for (size_t i = 0; i < buckets; i++)
        name_keys(rate, i);
    return rate;
}

void rate_close(struct rate **rate)
{
    free(*rate);
    *rate = NULL;
}

/* Returns the number of a user or an address in this batch, from 1; a new one gets the next. */
static uint16_t number_of(struct subjects *subjects, const char *name)
{
    size_t slot = hash_slot(name, SLOTS);
    for (; subjects->slots[slot] != 0; slot = (slot + 1) % SLOTS)
        if (strcmp(subjects->names[subjects->slots[slot] - 1], name) == 0)
            return subjects->slots[slot];
    assert(subjects->count < STOCK_BATCH_MAX);
    subjects->names[subjects->count] = name;
    subjects->slots[slot] = (uint16_t)++subjects->count;
    return subjects->slots[slot];
}

static struct question *question_of(struct rate *rate, const char *subject)
{
    return &rate->questions[rate->buckets > 1 ? hash_slot(subject, rate->buckets) : 0];
}

/* Adds an order, not yet limited by its user or its address. */
static size_t add_entry(struct rate *rate, struct question *question, size_t order)
{
    size_t at = question->count;
    if (at > 0 && question->orders[at - 1] == order) /* its user and address share a bucket */
        return at - 1;
    assert(at < STOCK_BATCH_MAX && order < rate->count);
    question->orders[at] = (uint16_t)order;
    question->user_of[at] = question->address_of[at] = 0;
    question->count++;
    return at;
}

static void add_order(struct rate *rate, struct stock_order *order)
{
    size_t at = rate->count++;
    rate->orders[at] = order;
    if (rate->limits.user_per_min > 0) {
        struct question *question = question_of(rate, order->user_id);
        size_t entry = add_entry(rate, question, at);
        question->user_of[entry] = number_of(&question->users, order->user_id);
    }
    if (rate->limits.address_per_min > 0 && order->address[0] != '\0') {
        struct question *question = question_of(rate, order->address);
        size_t entry = add_entry(rate, question, at);
        question->address_of[entry] = number_of(&question->addresses, order->address);
    }
}

static void clear(struct subjects *subjects)
{
    if (subjects->count > 0)
        memset(subjects->slots, 0, sizeof subjects->slots);
    subjects->count = 0;
}

/* Two digits of base 64, which the script reads without a call of its own per number. */
static char *put_digits(char *at, size_t number)
{
    assert(number < 4096);
    *at++ = (char)('0' + number / 64);
    *at++ = (char)('0' + number % 64);
    return at;
}

static void write_places(struct question *question)
{
    char *at = question->places;
    for (size_t i = 0; i < question->count; i++) {
        size_t address = question->address_of[i];
        at = put_digits(at, question->user_of[i]);
        at = put_digits(at, address > 0 ? question->users.count + address : 0);
    }
    *at = '\0';
}

static void write_number(struct question *question, size_t which, int64_t number)
{
    snprintf(question->numbers[which], sizeof question->numbers[which], "%lld", (long long)number);
}

static int64_t interval_us(unsigned per_min)
{
    return per_min > 0 ? MINUTE_US / per_min : 0;
}

static size_t append(struct question *question, size_t at, const char *const *texts, size_t count)
{
    memcpy(&question->parameters[at], texts, count * sizeof *texts);
    return at + count;
}

static void write_call(const struct limits *limits, struct question *question,
                       struct script_call *call)
{
    size_t used = 0;
    write_number(question, 0, (int64_t)question->users.count);
    write_number(question, 1, interval_us(limits->user_per_min));
    write_number(question, 2, limits->user_burst);
    write_number(question, 3, interval_us(limits->address_per_min));
    write_number(question, 4, limits->address_burst);
    for (size_t i = 0; i < KEYS; i++)
        question->parameters[used++] = question->keys[i];
    for (size_t i = 0; i < 5; i++)
        question->parameters[used++] = question->numbers[i];
    write_places(question);
    question->parameters[used++] = question->places;
    used = append(question, used, question->users.names, question->users.count);
    used = append(question, used, question->addresses.names, question->addresses.count);
    script_begin(call, SCRIPT_rate_limit);
    call->keys = KEYS;
    call->more = question->parameters;
    call->more_count = used;
    call->more_values = question->refused;
    call->more_values_max = 4 * question->count;
}

static void post_question(struct stock *stock, struct question *question)
{
    if (question->users.count + question->addresses.count == 0)
        return;
    stock->rate->posted = true;
    question->call = stock->call_count;
    write_call(&stock->rate->limits, question, stock_call(stock));
}

static struct limits read_limits(const struct stock_rates *rates)
{
    return (struct limits){
        .user_per_min = atomic_load(&rates->user_per_min),
        .user_burst = atomic_load(&rates->user_burst),
        .address_per_min = atomic_load(&rates->address_per_min),
        .address_burst = atomic_load(&rates->address_burst),
    };
}

void rate_post(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    struct rate *rate = stock->rate;
    if (!rate)
        return;
    assert(!rate->posted && count <= STOCK_BATCH_MAX); /* the last question has its answer */
    rate->limits = read_limits(rate->rates);
    if (rate->limits.user_per_min == 0 && rate->limits.address_per_min == 0)
        return;
    rate->count = 0;
    for (size_t i = 0; i < rate->buckets; i++) {
        rate->questions[i].count = 0;
        clear(&rate->questions[i].users);
        clear(&rate->questions[i].addresses);
    }
    for (size_t i = 0; i < count; i++)
        if (orders[i]->outcome == STOCK_OPEN && !orders[i]->rate_passed)
            add_order(rate, orders[i]);
    for (size_t i = 0; i < rate->buckets; i++)
        post_question(stock, &rate->questions[i]);
}

static void refuse(const struct rate *rate, const struct question *question, const int64_t *numbers)
{
    if (numbers[0] < 1 || (size_t)numbers[0] > question->count)
        return;
    struct stock_order *order = rate->orders[question->orders[numbers[0] - 1]];
    order->rate_passed = false;
    if (order->outcome != STOCK_OPEN)
        return;
    order->outcome = STOCK_RATE_LIMITED;
    order->rate_status = (struct stock_rate_status){
        .burst = numbers[1] == 1 ? rate->limits.user_burst : rate->limits.address_burst,
        .retry_ms = numbers[2],
        .reset_ms = numbers[3],
    };
}

/* Without an answer no order is let through. If Redis is lost as a whole, none is decided. */
static void read_answer(struct stock *stock, const struct question *question)
{
    const struct rate *rate = stock->rate;
    assert(question->call < STOCK_CALLS_MAX);
    const struct script_call *call = &stock->calls[question->call];
    bool fail = call->result != REDIS_ANSWERED && script_alive(stock->redis);
    for (size_t i = 0; i < question->count && call->result != REDIS_ANSWERED; i++) {
        struct stock_order *order = rate->orders[question->orders[i]];
        order->rate_passed = false;
        if (fail && order->outcome == STOCK_OPEN)
            order->outcome = STOCK_UNAVAILABLE;
    }
    for (int i = 0; i + 4 <= call->value_count; i += 4)
        refuse(rate, question, &question->refused[i]);
}

void rate_read(struct stock *stock)
{
    struct rate *rate = stock->rate;
    if (!rate || !rate->posted)
        return;
    assert(stock->call_count == 0); /* no answer has been overwritten */
    rate->posted = false;
    for (size_t i = 0; i < rate->count; i++)
        rate->orders[i]->rate_passed = true;
    for (size_t i = 0; i < rate->buckets; i++)
        if (rate->questions[i].count > 0)
            read_answer(stock, &rate->questions[i]);
}

void rate_finish(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    if (!stock->rate || !stock->rate->posted || stock_run_calls(stock))
        return;
    for (size_t i = 0; i < count; i++)
        if (orders[i]->outcome == STOCK_OPEN)
            orders[i]->outcome = STOCK_UNAVAILABLE;
}

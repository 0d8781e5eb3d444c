/* Limits of orders per user and per client address, asked for a whole batch in one call. */
#include "stock/check_rate.h"

#include <assert.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum {
    SUBJECTS_MAX = 2 * STOCK_BATCH_MAX,
    KEYS = 4,
    FIXED = 6,   /* arguments between the keys and the subjects */
    SLOTS = 2048 /* of the table that finds a subject again: a power of two, half of it used */
};

static const int64_t MINUTE_US = 60000000;

static const char *const keys[KEYS] = {
    STOCK_PREFIX "{rate}:users",
    STOCK_PREFIX "{rate}:users:older",
    STOCK_PREFIX "{rate}:addresses",
    STOCK_PREFIX "{rate}:addresses:older",
};

static_assert(KEYS + FIXED + SUBJECTS_MAX <= SCRIPT_MORE_MAX, "a call has room for a batch");
static_assert(SUBJECTS_MAX < 4096, "two digits of base 64 number a subject");

struct subjects {
    size_t count;
    uint16_t slots[SLOTS]; /* number of the subject from 1, 0: none */
    const char *names[STOCK_BATCH_MAX];
};

struct limits {
    unsigned user_per_min, user_burst;
    unsigned address_per_min, address_burst;
};

struct rate {
    const struct stock_rates *rates;
    struct limits limits; /* as they were when the present batch was posted */
    struct stock_order *orders[STOCK_BATCH_MAX];
    size_t count;
    size_t call; /* where the question stands in the pipeline */
    bool posted;
    struct subjects users, addresses;
    uint16_t user_of[STOCK_BATCH_MAX], address_of[STOCK_BATCH_MAX]; /* from 1; 0: not limited */
    char numbers[5][24];
    char places[4 * STOCK_BATCH_MAX + 1];
    const char *parameters[KEYS + FIXED + SUBJECTS_MAX];
    int64_t refused[4 * STOCK_BATCH_MAX];
};

struct rate *rate_open(const struct stock_rates *rates)
{
    if (!rates)
        return NULL;
    struct rate *rate = calloc(1, sizeof *rate);
    if (!rate)
        abort();
    rate->rates = rates;
    return rate;
}

void rate_close(struct rate **rate)
{
    free(*rate);
    *rate = NULL;
}

/* The number of a user, or of an address, in this batch, from 1; a new one gets the next. */
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

static void add_order(struct rate *rate, struct stock_order *order)
{
    size_t at = rate->count++;
    bool address = rate->limits.address_per_min > 0 && order->address[0] != '\0';
    bool user = rate->limits.user_per_min > 0;
    rate->orders[at] = order;
    rate->user_of[at] = user ? number_of(&rate->users, order->user_id) : 0;
    rate->address_of[at] = address ? number_of(&rate->addresses, order->address) : 0;
}

static void clear(struct subjects *subjects)
{
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

static void write_places(struct rate *rate)
{
    char *at = rate->places;
    for (size_t i = 0; i < rate->count; i++) {
        size_t address = rate->address_of[i];
        at = put_digits(at, rate->user_of[i]);
        at = put_digits(at, address > 0 ? rate->users.count + address : 0);
    }
    *at = '\0';
}

static void write_number(struct rate *rate, size_t which, int64_t number)
{
    snprintf(rate->numbers[which], sizeof rate->numbers[which], "%lld", (long long)number);
}

static int64_t interval_us(unsigned per_min)
{
    return per_min > 0 ? MINUTE_US / per_min : 0;
}

static size_t append(struct rate *rate, size_t at, const char *const *texts, size_t count)
{
    memcpy(&rate->parameters[at], texts, count * sizeof *texts);
    return at + count;
}

static void write_call(struct rate *rate, struct script_call *call)
{
    const struct limits *limits = &rate->limits;
    size_t used = append(rate, 0, keys, KEYS);
    write_number(rate, 0, (int64_t)rate->users.count);
    write_number(rate, 1, interval_us(limits->user_per_min));
    write_number(rate, 2, limits->user_burst);
    write_number(rate, 3, interval_us(limits->address_per_min));
    write_number(rate, 4, limits->address_burst);
    for (size_t i = 0; i < 5; i++)
        rate->parameters[used++] = rate->numbers[i];
    write_places(rate);
    rate->parameters[used++] = rate->places;
    used = append(rate, used, rate->users.names, rate->users.count);
    used = append(rate, used, rate->addresses.names, rate->addresses.count);
    script_begin(call, SCRIPT_rate_limit);
    call->keys = KEYS;
    call->more = rate->parameters;
    call->more_count = used;
    call->more_values = rate->refused;
    call->more_values_max = 4 * rate->count;
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
    assert(!rate->posted && count <= STOCK_BATCH_MAX); /* the last question was answered */
    rate->limits = read_limits(rate->rates);
    if (rate->limits.user_per_min == 0 && rate->limits.address_per_min == 0)
        return;
    rate->count = 0;
    clear(&rate->users);
    clear(&rate->addresses);
    for (size_t i = 0; i < count; i++)
        if (orders[i]->outcome == STOCK_OPEN && !orders[i]->rate_passed)
            add_order(rate, orders[i]);
    if (rate->users.count + rate->addresses.count == 0)
        return;
    rate->posted = true;
    rate->call = stock->call_count;
    write_call(rate, stock_call(stock));
}

static void refuse(struct rate *rate, const int64_t *numbers)
{
    if (numbers[0] < 1 || (size_t)numbers[0] > rate->count)
        return;
    struct stock_order *order = rate->orders[numbers[0] - 1];
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

static void read_answer(struct stock *stock)
{
    struct rate *rate = stock->rate;
    assert(stock->call_count == 0 &&
           rate->call < STOCK_CALLS_MAX); /* no answer is overwritten yet */
    const struct script_call *call = &stock->calls[rate->call];
    rate->posted = false;
    for (size_t i = 0; i < rate->count; i++) {
        struct stock_order *order = rate->orders[i];
        order->rate_passed = call->result == REDIS_ANSWERED;
        if (call->result == REDIS_FAILED && redis_connected(stock->redis) &&
            order->outcome == STOCK_OPEN)
            order->outcome = STOCK_UNAVAILABLE;
    }
    for (int i = 0; i + 4 <= call->value_count; i += 4)
        refuse(rate, &rate->refused[i]);
}

bool rate_run(struct stock *stock)
{
    bool alive = stock_run_calls(stock);
    if (stock->rate && stock->rate->posted)
        read_answer(stock);
    return alive;
}

void rate_finish(struct stock *stock)
{
    if (stock->rate && stock->rate->posted)
        rate_run(stock);
}

void rate_ask(struct stock *stock, struct stock_order *const *orders, size_t count)
{
    rate_post(stock, orders, count);
    if (!stock->rate || !stock->rate->posted || rate_run(stock))
        return;
    for (size_t i = 0; i < count; i++)
        if (orders[i]->outcome == STOCK_OPEN)
            orders[i]->outcome = STOCK_UNAVAILABLE;
}

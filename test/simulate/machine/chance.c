/* All chance of a schedule, from its seed alone. */
#include "test/simulate/machine/chance.h"

#include <assert.h>

#include "test/simulate/story.h"
#include "test/simulate/tally.h"

/* How often faults strike, of 1000 of their rates: each schedule has one of these. */
static const uint32_t intensities[] = {0, 150, 400, 1000, 2000};

#define FAULT_ROW(name, text, rate) {text, rate},
static const struct {
    const char *text;
    uint32_t rate;
} faults[FAULT_COUNT] = {FAULTS(FAULT_ROW)};
#undef FAULT_ROW

enum stream { STREAM_PLAN = 1, STREAM_DELAY, STREAM_EFFECT, STREAM_FAULT, STREAM_NAMED };

static struct {
    uint64_t seed;
    const struct mask *mask;
    uint32_t intensity;
    bool armed;
    bool enabled[FAULT_COUNT];
    bool kinds_struck[FAULT_COUNT];
    struct chance delay, effect;
    uint64_t fault_key;
    uint32_t asked, steps;
    uint32_t struck[FAULTS_MAX];
    size_t struck_count;
} now;

/* splitmix64 (Steele, Lea, Flood). */
static uint64_t mix(uint64_t x)
{
    x = (x ^ x >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ x >> 27) * UINT64_C(0x94d049bb133111eb);
    return x ^ x >> 31;
}

static uint64_t next(struct chance *chance)
{
    chance->state += UINT64_C(0x9e3779b97f4a7c15);
    return mix(chance->state);
}

uint32_t chance_below(struct chance *chance, uint32_t bound)
{
    assert(bound > 0);
    return (uint32_t)((next(chance) >> 32) * bound >> 32);
}

struct chance chance_stream(uint64_t name)
{
    return (struct chance){mix(mix(now.seed + STREAM_NAMED) + name)};
}

/* Few kinds of faults together find more than all of them at once, which soon stop everything. */
void chance_begin(uint64_t seed, const struct mask *mask)
{
    now.seed = mix(seed ^ UINT64_C(0x5eed));
    now.mask = mask;
    now.asked = now.steps = 0;
    now.struck_count = 0;
    struct chance plan = {now.seed + STREAM_PLAN};
    now.delay.state = mix(now.seed + STREAM_DELAY);
    now.effect.state = mix(now.seed + STREAM_EFFECT);
    now.fault_key = mix(now.seed + STREAM_FAULT);
    now.intensity = intensities[chance_below(&plan, sizeof intensities / sizeof intensities[0])];
    if (mask && mask->calm)
        now.intensity = 0;
    uint32_t share = 1 + chance_below(&plan, 8);
    for (int i = 0; i < FAULT_COUNT; i++) {
        now.enabled[i] = chance_below(&plan, 8) < share;
        now.kinds_struck[i] = false;
    }
}

uint32_t chance_delay(uint32_t bound)
{
    return chance_below(&now.delay, bound);
}

uint32_t chance_effect(uint32_t bound)
{
    return chance_below(&now.effect, bound);
}

static bool is_masked(const uint32_t *masked, size_t count, uint32_t number)
{
    for (size_t i = 0; i < count; i++)
        if (masked[i] == number)
            return true;
    return false;
}

bool chance_strikes(enum fault_kind fault)
{
    assert(fault < FAULT_COUNT);
    if (now.intensity == 0 || !now.armed)
        return false;
    uint32_t number = now.asked++;
    if (!now.enabled[fault] || now.struck_count == FAULTS_MAX)
        return false;
    uint32_t draw = (uint32_t)(mix(now.fault_key + number) % 1000000);
    if (draw >= faults[fault].rate * now.intensity)
        return false;
    if (now.mask && is_masked(now.mask->faults, now.mask->fault_count, number))
        return false;
    now.struck[now.struck_count++] = number;
    now.kinds_struck[fault] = true;
    tally(faults[fault].text);
    story("        !! %s", faults[fault].text);
    return true;
}

bool chance_step(void)
{
    uint32_t number = now.steps++;
    return !now.mask || !is_masked(now.mask->steps, now.mask->step_count, number);
}

void chance_arm(bool armed)
{
    now.armed = armed;
}

void chance_calm(void)
{
    now.intensity = 0;
}

size_t chance_struck(const uint32_t **numbers_out)
{
    *numbers_out = now.struck;
    return now.struck_count;
}

bool chance_struck_kind(enum fault_kind fault)
{
    return now.kinds_struck[fault];
}

uint32_t chance_steps(void)
{
    return now.steps;
}

const char *chance_fault_name(enum fault_kind fault)
{
    return faults[fault].text;
}

uint64_t chance_faults_tallied(size_t *kinds_out)
{
    uint64_t sum = 0;
    size_t kinds = 0;
    for (int i = 0; i < FAULT_COUNT; i++) {
        uint64_t count = tally_count(faults[i].text);
        sum += count;
        kinds += count > 0;
    }
    if (kinds_out)
        *kinds_out = kinds;
    return sum;
}

/* Virtual time, and what happens in it: events, processes, and their tasks. */
#include "test/simulate/machine/loop.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "stock/sale_cache.h"
#include "test/simulate/machine/chance.h"
#include "test/simulate/machine/coroutine.h"
#include "test/simulate/story.h"

enum { EVENTS_MAX = 4096, NOTICES_MAX = 4, CLOCK_READ_NS = 200 };

struct event {
    int64_t at_ns;
    uint64_t number;
    void (*run)(void *argument, uint32_t tag);
    void *argument;
    uint32_t tag;
};

static struct {
    int64_t now_ns;
    uint64_t events; /* so far */
    struct event heap[EVENTS_MAX];
    size_t count;
    struct process processes[PROCESSES_MAX];
    size_t process_count;
    struct task tasks[TASKS_MAX];
    struct task *present;
    size_t alive, lasting;
    uint64_t signals; /* waits for them so far */
    void (*notices[NOTICES_MAX])(struct task *task);
    size_t notice_count;
} loop;

/* ---- events ---- */

int64_t loop_now_ns(void)
{
    return loop.now_ns;
}

int64_t loop_clock_ns(void)
{
    return loop.now_ns += CLOCK_READ_NS;
}

static bool is_before(const struct event *a, const struct event *b)
{
    return a->at_ns != b->at_ns ? a->at_ns < b->at_ns : a->number < b->number;
}

void loop_at(int64_t at_ns, void (*run)(void *argument, uint32_t tag), void *argument, uint32_t tag)
{
    assert(loop.count < EVENTS_MAX);
    struct event event = {at_ns, loop.events++, run, argument, tag};
    size_t i = loop.count++;
    for (; i > 0 && is_before(&event, &loop.heap[(i - 1) / 2]); i = (i - 1) / 2)
        loop.heap[i] = loop.heap[(i - 1) / 2];
    loop.heap[i] = event;
}

static struct event take_first(void)
{
    struct event first = loop.heap[0], last = loop.heap[--loop.count];
    size_t i = 0;
    for (size_t child = 1; child < loop.count; child = 2 * i + 1) {
        if (child + 1 < loop.count && is_before(&loop.heap[child + 1], &loop.heap[child]))
            child++;
        if (!is_before(&loop.heap[child], &last))
            break;
        loop.heap[i] = loop.heap[child];
        i = child;
    }
    loop.heap[i] = last;
    return first;
}

bool loop_run(int64_t until_ns, uint32_t events_max, bool (*stop)(void))
{
    for (uint32_t i = 0; i < events_max; i++) {
        if (loop.count == 0 || loop.heap[0].at_ns > until_ns || stop())
            return true;
        struct event event = take_first();
        if (event.at_ns > loop.now_ns)
            loop.now_ns = event.at_ns;
        event.run(event.argument, event.tag);
    }
    return false;
}

void loop_begin(void)
{
    for (size_t i = 0; i < TASKS_MAX; i++)
        if (loop.tasks[i].used && loop.tasks[i].coroutine)
            coroutine_free(loop.tasks[i].coroutine);
    memset(loop.tasks, 0, sizeof loop.tasks);
    loop.count = loop.process_count = 0;
    loop.events = loop.signals = 0;
    loop.alive = loop.lasting = 0;
    loop.now_ns = LOOP_START_NS;
    loop.present = NULL;
}

void loop_on_death(void (*notice)(struct task *task))
{
    assert(loop.notice_count < NOTICES_MAX);
    loop.notices[loop.notice_count++] = notice;
}

/* ---- tasks ---- */

struct task *task_current(void)
{
    return loop.present;
}

size_t tasks_alive(void)
{
    return loop.alive;
}

size_t tasks_lasting(void)
{
    return loop.lasting;
}

static void count(struct task *task)
{
    task->counted = true;
    *(task->lasting ? &loop.lasting : &loop.alive) += 1;
}

static void uncount(struct task *task)
{
    if (task->counted)
        *(task->lasting ? &loop.lasting : &loop.alive) -= 1;
    task->counted = false;
}

void task_last(struct task *task)
{
    uncount(task);
    task->lasting = true;
    count(task);
}

/* Its coroutine is not the present one. */
static void bury(struct task *task)
{
    uncount(task);
    task->ended = true;
    task->tag++;
    if (task->coroutine)
        coroutine_free(task->coroutine);
    task->coroutine = NULL;
    task->used = false;
}

static void kill_task(struct task *task)
{
    for (size_t i = 0; i < loop.notice_count; i++)
        loop.notices[i](task);
    bury(task);
}

static void run_task(struct task *task)
{
    task->tag++;
    loop.present = task;
    coroutine_resume(task->coroutine);
    loop.present = NULL;
    if (task->ended)
        bury(task);
    else if (task->doomed && !task->at_server)
        kill_task(task);
}

/* Lets faults strike a process when one of its tasks continues. True: the task must not run. */
static bool is_befallen(struct task *task)
{
    struct process *process = task->process;
    if (chance_strikes(FAULT_CRASH)) {
        process_die(process);
        return true;
    }
    if (chance_strikes(FAULT_PAUSE))
        process_sleep(process, (50 + (int64_t)chance_effect(1200)) * LOOP_MS);
    if (chance_strikes(FAULT_PROCESS_CLOCK))
        process->wall_step_ns = ((int64_t)chance_effect(10000) - 5000) * LOOP_MS;
    return false;
}

static void resume(void *argument, uint32_t tag)
{
    struct task *task = argument;
    if (!task->used || task->tag != tag)
        return;
    if (task->at_server) {
        run_task(task);
        return;
    }
    if (!task->spared && task->process->asleep_until_ns <= loop.now_ns && is_befallen(task))
        return;
    if (task->process->asleep_until_ns > loop.now_ns)
        loop_at(task->process->asleep_until_ns, resume, task, tag);
    else
        run_task(task);
}

static void body(void *argument)
{
    struct task *task = argument;
    task->body(task->argument);
    task->ended = true;
}

struct task *task_start(struct process *process, const char *name, void (*run)(void *argument),
                        void *argument, int64_t delay_ns)
{
    size_t i = 0;
    while (i < TASKS_MAX && loop.tasks[i].used)
        i++;
    assert(i < TASKS_MAX && process->alive);
    struct task *task = &loop.tasks[i];
    *task = (struct task){
        .process = process, .body = run, .argument = argument, .used = true, .tag = task->tag + 1};
    snprintf(task->name, sizeof task->name, "%s", name);
    task->lasting = loop.present && loop.present->lasting;
    count(task);
    task->coroutine = coroutine_make(body, task);
    loop_at(loop.now_ns + delay_ns, resume, task, task->tag);
    return task;
}

uint32_t task_waits(void)
{
    return loop.present->tag;
}

static bool await(int64_t until_ns, bool at_server)
{
    struct task *task = loop.present;
    if (!task)
        return false;
    task->woken = false;
    task->at_server = at_server;
    if (until_ns != LOOP_FOREVER)
        loop_at(until_ns, resume, task, task->tag);
    coroutine_yield();
    task->at_server = false;
    return task->woken;
}

void task_sleep(int64_t ns)
{
    await(loop.now_ns + ns, false);
}

void task_travel(int64_t ns)
{
    await(loop.now_ns + ns, true);
}

bool task_await(int64_t until_ns)
{
    return await(until_ns, false);
}

bool task_await_at_server(int64_t until_ns)
{
    return await(until_ns, true);
}

void task_wake(struct task *task, uint32_t tag)
{
    if (!task->used || task->tag != tag)
        return;
    task->woken = true;
    loop_at(loop.now_ns, resume, task, tag);
}

bool task_await_signal(const void *signal, int64_t until_ns)
{
    struct task *task = loop.present;
    assert(task);
    task->signal = signal;
    task->since = loop.signals++;
    bool woken = await(until_ns, false);
    task->signal = NULL;
    return woken;
}

static struct task *first_waiting(const void *signal)
{
    struct task *first = NULL;
    for (size_t i = 0; i < TASKS_MAX; i++) {
        struct task *task = &loop.tasks[i];
        if (task->used && task->signal == signal && (!first || task->since < first->since))
            first = task;
    }
    return first;
}

void task_signal(const void *signal, bool all)
{
    struct task *task = signal ? first_waiting(signal) : NULL;
    for (; task; task = all ? first_waiting(signal) : NULL) {
        task->signal = NULL;
        task_wake(task, task->tag);
    }
}

/* ---- processes ---- */

struct process *process_make(int number)
{
    assert(loop.process_count < PROCESSES_MAX);
    struct process *process = &loop.processes[loop.process_count++];
    *process = (struct process){.number = number};
    return process;
}

struct process *process_at(size_t i)
{
    return i < loop.process_count ? &loop.processes[i] : NULL;
}

void process_start(struct process *process)
{
    assert(!process->alive);
    process->alive = true;
    process->incarnation++;
    process->asleep_until_ns = 0;
    process->cache = sale_cache_open();
}

/* A request that is on its way reaches its server, or not. */
void process_die(struct process *process)
{
    story("        process %d is dead", process->number);
    process->alive = false;
    for (size_t i = 0; i < TASKS_MAX; i++) {
        struct task *task = &loop.tasks[i];
        if (!task->used || task->process != process || task->doomed)
            continue;
        uncount(task);
        task->doomed = true;
        if (task != loop.present && (!task->at_server || chance_effect(2) == 0))
            kill_task(task);
    }
}

void process_sleep(struct process *process, int64_t ns)
{
    story("        process %d sleeps for %lld ms", process->number, (long long)(ns / LOOP_MS));
    process->asleep_until_ns = loop.now_ns + ns;
}

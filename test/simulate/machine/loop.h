/* Virtual time, and what happens in it: events, processes, and their tasks.
 *
 * A task is a thread of a process, as a coroutine. It runs until it waits for a message or for time
 * to pass; while it runs nothing else does, and no time passes but for what it spends at the clock.
 * A process may sleep, so that none of its tasks runs, or die, and its tasks with it. */
#ifndef SIMULATE_LOOP_H
#define SIMULATE_LOOP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LOOP_START_NS INT64_C(1000000000000)      /* of the monotonic clock */
#define LOOP_WALL_NS INT64_C(1790000000000000000) /* since 1970, at LOOP_START_NS */
#define LOOP_MS INT64_C(1000000)

enum { PROCESSES_MAX = 4, TASKS_MAX = 96, TASK_NAME_SIZE = 24 };

#define LOOP_FOREVER INT64_MAX

struct sale_cache;

struct process {
    int number;
    bool alive;
    uint32_t incarnation; /* counts its starts */
    int64_t asleep_until_ns;
    int64_t wall_step_ns; /* how wrong its wall clock is */
    struct sale_cache *cache;
    bool listens; /* to the channel of changes by itself, as a daemon; else messages just come */
};

struct task {
    char name[TASK_NAME_SIZE];
    struct process *process;
    void (*body)(void *argument);
    void *argument;
    struct coroutine *coroutine;
    uint32_t tag;       /* of the wake-up that it waits for: any other one is out of date */
    bool woken;         /* by task_wake, not by time */
    bool at_server;     /* it stands for its request, which goes on although the process dies */
    bool doomed;        /* its process is dead: it ends when it would be at home again */
    bool lasting;       /* a daemon's: the schedule does not wait for its end */
    bool spared;        /* no fault of its process begins when it continues */
    bool counted;       /* among the living */
    const void *signal; /* that it waits for; NULL: none */
    uint64_t since;     /* orders the waiting ones */
    bool ended;
    bool used;
};

/* Begins a schedule: no event, no process, no task. */
void loop_begin(void);

int64_t loop_now_ns(void);

/* A read of a clock takes a moment, so that no task can wait for time to pass by looking at it. */
int64_t loop_clock_ns(void);

/* Calls run(argument, tag) when that time has come; at the same time the one that was asked for
 * first comes first. */
void loop_at(int64_t at_ns, void (*run)(void *argument, uint32_t tag), void *argument,
             uint32_t tag);

/* Lets things happen until nothing is left, or `until_ns`, or stop() says so. False after
 * `events_max` events. */
bool loop_run(int64_t until_ns, uint32_t events_max, bool (*stop)(void));

/* Processes: born dead. process_start makes it alive with a cache of its own; process_die ends it
 * and its tasks. */
struct process *process_make(int number);
struct process *process_at(size_t i); /* NULL: there are no more */
void process_start(struct process *process);
void process_die(struct process *process);
void process_sleep(struct process *process, int64_t ns);

/* Starts a task of a living process, which begins `delay_ns` from now. */
struct task *task_start(struct process *process, const char *name, void (*body)(void *argument),
                        void *argument, int64_t delay_ns);
struct task *task_current(void);

/* The tasks that the schedule waits for, and all others: task_last moves the present task to
 * those, and with it whatever it starts. */
size_t tasks_alive(void);
size_t tasks_lasting(void);
void task_last(struct task *task);

/* The present task waits: at home, where it notices that its process sleeps or dies; or on the way
 * to and at a server, where it does not. Without a task nothing waits. */
void task_sleep(int64_t ns);
void task_travel(int64_t ns);

/* Waits for task_wake with the tag that task_waits returned, or until that time. True: woken. */
uint32_t task_waits(void);
bool task_await(int64_t until_ns);
bool task_await_at_server(int64_t until_ns);
void task_wake(struct task *task, uint32_t tag);

/* Waits for task_signal with that address, or until that time. True: signalled. A signal wakes the
 * task that has waited longest, or all; it is lost when none waits; NULL signals nobody. */
bool task_await_signal(const void *signal, int64_t until_ns);
void task_signal(const void *signal, bool all);

/* Called for each task that ends before its time, so that owners close what it has open. */
void loop_on_death(void (*notice)(struct task *task));

#endif

/* Runs schedules, one seed after the other, until one breaks a promise; tells the story of it.
 *
 * usage: simulate [--seeds N] [--from N] [--jobs N] [--counts] [--calm] [--seed N [--whole]] */
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/simulate/redis_lua.h"
#include "test/simulate/shrink.h"
#include "test/simulate/story.h"
#include "test/simulate/tally.h"
#include "test/simulate/world.h"

struct options {
    uint64_t from, seeds;
    long jobs;
    bool one, whole, counts, calm;
};

/* Shared by the jobs. */
struct progress {
    _Atomic uint64_t next, done, broken; /* broken: the smallest such seed + 1; 0: none */
};

static uint64_t now_at; /* the seed of the present schedule */

int __real_clock_gettime(clockid_t clock, struct timespec *now);

static double seconds(void)
{
    struct timespec now;
    __real_clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int tell(uint64_t seed, bool whole, bool calm)
{
    struct mask mask = {.calm = calm};
    if (!whole && world_run(seed, &mask))
        shrink(seed, &mask);
    story_told = true;
    const char *broken = world_run(seed, &mask);
    story_told = false;
    printf("seed %llu: %s\n", (unsigned long long)seed, broken ? broken : "every promise was kept");
    if (mask.fault_count + mask.step_count > 0)
        printf("(without %zu faults and %zu steps that it does not need; --whole shows them)\n",
               mask.fault_count, mask.step_count);
    return broken ? 1 : 0;
}

static void note_broken(struct progress *progress, uint64_t seed)
{
    uint64_t before = progress->broken;
    while ((before == 0 || before > seed + 1) &&
           !__atomic_compare_exchange_n(&progress->broken, &before, seed + 1, false,
                                        __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST))
        continue;
}

static void work(struct progress *progress, const struct options *options)
{
    const struct mask mask = {.calm = options->calm};
    for (;;) {
        uint64_t seed = now_at = options->from + progress->next++;
        if (seed >= options->from + options->seeds ||
            (progress->broken != 0 && seed >= progress->broken))
            return;
        if (world_run(seed, &mask))
            note_broken(progress, seed);
        progress->done++;
    }
}

/* A job that dies, as of an assertion, has failed with the seed that it was at; its message says
 * which assertion. */
static bool run_jobs(struct progress *progress, const struct options *options)
{
    bool good = true;
    fflush(stdout);
    for (long i = 1; i < options->jobs; i++)
        if (fork() == 0) {
            work(progress, options);
            _exit(0);
        }
    work(progress, options);
    for (int status; wait(&status) > 0;)
        good &= WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return good;
}

static int search(const struct options *options)
{
    struct progress *progress =
        mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double start = seconds();
    tally_open();
    bool good = run_jobs(progress, options);
    double took = seconds() - start;
    printf("%llu schedules in %.1f s, %.0f a second\n", (unsigned long long)progress->done, took,
           (double)progress->done / took);
    if (options->counts)
        tally_print();
    if (progress->broken == 0)
        return good ? 0 : 1;
    return tell(progress->broken - 1, false, options->calm);
}

static void on_abort(int signal_number)
{
    (void)signal_number;
    fprintf(stderr, "simulate: seed %llu\n", (unsigned long long)now_at);
}

static uint64_t number(const char *text)
{
    char *end;
    uint64_t value = strtoull(text, &end, 10);
    if (*text == '\0' || *end != '\0') {
        fprintf(stderr, "simulate: not a number: %s\n", text);
        exit(2);
    }
    return value;
}

int main(int argc, char **argv)
{
    static const struct option names[] = {
        {"seeds", required_argument, NULL, 'n'}, {"from", required_argument, NULL, 'f'},
        {"jobs", required_argument, NULL, 'j'},  {"seed", required_argument, NULL, 's'},
        {"whole", no_argument, NULL, 'w'},       {"counts", no_argument, NULL, 'c'},
        {"calm", no_argument, NULL, 'q'},        {0},
    };
    struct options options = {.from = 1, .seeds = 20000, .jobs = sysconf(_SC_NPROCESSORS_ONLN)};
    for (int option; (option = getopt_long(argc, argv, "", names, NULL)) != -1;) {
        if (option == 'n')
            options.seeds = number(optarg);
        else if (option == 'f')
            options.from = number(optarg);
        else if (option == 'j')
            options.jobs = (long)number(optarg);
        else if (option == 's')
            options.from = number(optarg), options.one = true;
        else if (option == 'w')
            options.whole = true;
        else if (option == 'c')
            options.counts = true;
        else if (option == 'q')
            options.calm = true;
        else
            return 2;
    }
    signal(SIGABRT, on_abort);
    setvbuf(stdout, NULL, _IOLBF, 0);
    redis_lua_open();
    return options.one ? tell(options.from, options.whole, options.calm) : search(&options);
}

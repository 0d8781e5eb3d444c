/* Runs schedules, one seed after the other, until one breaks a promise; tells the story of it.
 *
 * usage: simulate [--seeds N] [--from N] [--jobs N] [--quiet] [--calm] [--daemons]
 *                 [--seed N [--whole]]
 *
 * Several jobs share the seeds. Every ten seconds a line says how far they are, and from which seed
 * a run that is killed can go on. SIGINT and SIGTERM end a run early, with its summary. */
#include <getopt.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "test/simulate/machine/chance.h"
#include "test/simulate/servers/redis_lua.h"
#include "test/simulate/shrink.h"
#include "test/simulate/story.h"
#include "test/simulate/tally.h"
#include "test/simulate/world.h"

enum { JOBS_MAX = 64, PROGRESS_S = 10, POLL_MS = 50 };

struct options {
    uint64_t from, seeds;
    long jobs;
    bool one, whole, quiet;
    struct mask mask; /* of every schedule */
};

/* Shared by the jobs. */
struct progress {
    _Atomic uint64_t next, done, broken; /* broken: the smallest such seed + 1; 0: none */
    _Atomic uint64_t at[JOBS_MAX];       /* the seed that each job is at; UINT64_MAX: at none */
    _Atomic bool stop;
};

static volatile sig_atomic_t interrupted;

static uint64_t now_at; /* the seed of the present schedule */

int __real_clock_gettime(clockid_t clock, struct timespec *now);

static double seconds(void)
{
    struct timespec now;
    __real_clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static int tell(const struct options *options, uint64_t seed, bool whole)
{
    struct mask mask = options->mask;
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
           !atomic_compare_exchange_strong(&progress->broken, &before, seed + 1))
        continue;
}

static void work(struct progress *progress, const struct options *options, long job)
{
    const struct mask mask = options->mask;
    while (!progress->stop) {
        uint64_t seed = now_at = options->from + progress->next++;
        progress->at[job] = seed;
        if (seed >= options->from + options->seeds ||
            (progress->broken != 0 && seed >= progress->broken))
            break;
        if (world_run(seed, &mask))
            note_broken(progress, seed);
        progress->done++;
    }
    progress->at[job] = UINT64_MAX;
}

/* The first seed that may not have been run. */
static uint64_t next_seed(const struct progress *progress, const struct options *options)
{
    uint64_t next = options->from + progress->next, end = options->from + options->seeds;
    next = next < end ? next : end;
    for (long i = 0; i < options->jobs; i++)
        next = progress->at[i] < next ? progress->at[i] : next;
    return next;
}

static void on_stop(int signal_number)
{
    (void)signal_number;
    interrupted = 1;
}

static void start_jobs(struct progress *progress, const struct options *options)
{
    fflush(stdout);
    for (long i = 0; i < options->jobs; i++) {
        progress->at[i] = options->from;
        pid_t pid = fork();
        if (pid < 0)
            abort();
        if (pid > 0)
            continue;
        signal(SIGINT, SIG_IGN); /* the parent tells when to stop */
        signal(SIGTERM, SIG_DFL);
        work(progress, options, i);
        _exit(0);
    }
}

static void say_progress(const struct progress *progress, const struct options *options,
                         double took)
{
    if (!options->quiet)
        printf("%8.0f s: %llu schedules, %.0f a second, %llu faults, next seed %llu\n", took,
               (unsigned long long)progress->done, (double)progress->done / took,
               (unsigned long long)chance_faults_tallied(NULL),
               (unsigned long long)next_seed(progress, options));
}

/* A job that dies has failed with the seed that it was at, which it tells; then all stop. */
static bool run_jobs(struct progress *progress, const struct options *options, double start)
{
    bool good = true;
    double said = start;
    start_jobs(progress, options);
    for (long running = options->jobs; running > 0;) {
        int status;
        if (waitpid(-1, &status, WNOHANG) > 0) {
            bool ended = WIFEXITED(status) && WEXITSTATUS(status) == 0;
            good &= ended;
            progress->stop |= !ended;
            running--;
            continue;
        }
        if (interrupted)
            progress->stop = true;
        if (seconds() - said >= PROGRESS_S) {
            said = seconds();
            say_progress(progress, options, said - start);
        }
        poll(NULL, 0, POLL_MS);
    }
    return good;
}

static const char *how_it_ended(const struct progress *progress, bool good)
{
    return progress->broken ? "a promise was broken"
           : !good          ? "a job died"
           : interrupted    ? "no promise was broken; interrupted"
                            : "no promise was broken";
}

static void say_summary(const struct progress *progress, const struct options *options, double took,
                        bool good)
{
    size_t kinds = 0;
    uint64_t next = next_seed(progress, options), faults = chance_faults_tallied(&kinds);
    if (!options->quiet)
        tally_print();
    printf("%llu schedules in %.1f s, %.0f a second, seeds %llu to %llu; %llu faults of %zu kinds; "
           "%llu orders accepted of %llu units, %llu ended; %s\n",
           (unsigned long long)progress->done, took, (double)progress->done / took,
           (unsigned long long)options->from, (unsigned long long)(next - 1),
           (unsigned long long)faults, kinds, (unsigned long long)tally_count("accepted"),
           (unsigned long long)tally_count("units accepted"),
           (unsigned long long)(tally_count("order cancelled") + tally_count("order expired")),
           how_it_ended(progress, good));
}

static int search(const struct options *options)
{
    struct progress *progress =
        mmap(NULL, sizeof *progress, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    double start = seconds();
    tally_open();
    signal(SIGINT, on_stop);
    signal(SIGTERM, on_stop);
    bool good = run_jobs(progress, options, start);
    say_summary(progress, options, seconds() - start, good);
    if (progress->broken == 0)
        return good && !interrupted ? 0 : 1;
    return tell(options, progress->broken - 1, false);
}

static void on_abort(int signal_number)
{
    signal(signal_number, SIG_DFL);
    /* NOLINTNEXTLINE(bugprone-signal-handler,cert-sig30-c): by an abort of this thread's own */
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
        {"seeds", required_argument, NULL, 'n'},
        {"from", required_argument, NULL, 'f'},
        {"jobs", required_argument, NULL, 'j'},
        {"seed", required_argument, NULL, 's'},
        {"whole", no_argument, NULL, 'w'},
        {"quiet", no_argument, NULL, 'q'},
        {"calm", no_argument, NULL, 'c'},
        {"daemons", no_argument, NULL, 'd'},
        {0},
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
            options.mask.calm = true;
        else if (option == 'd')
            options.mask.daemons = true;
        else if (option == 'q')
            options.quiet = true;
        else
            return 2;
    }
    if (options.jobs < 1 || options.jobs > JOBS_MAX) {
        fprintf(stderr, "simulate: --jobs is 1 to %d\n", JOBS_MAX);
        return 2;
    }
    signal(SIGABRT, on_abort);
    signal(SIGSEGV, on_abort);
    setvbuf(stdout, NULL, _IOLBF, 0);
    redis_lua_open();
    return options.one ? tell(&options, options.from, options.whole) : search(&options);
}

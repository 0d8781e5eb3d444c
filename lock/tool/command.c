/* Runs the command of seclock, with its descriptors and signals, and ends it. */
#include "lock/tool/command.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { DESCRIPTORS_MAX = 1024 }; /* the greatest inherited one that is noticed */

/* The running command. */
struct run {
    const struct settings *settings;
    pid_t pid;
    bool own_group; /* signals go to all of its processes */
    bool lost;
    int64_t kill_at_ns; /* 0: nothing has told the command to end */
};

void say(const struct settings *settings, const char *format, ...)
{
    va_list args;
    if (settings->quiet)
        return;
    va_start(args, format);
    fputs("seclock: ", stderr);
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
}

/* ---- signals ---- */

static const int forwarded[] = {SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2};

/* Leaves out signals that the caller of seclock ignores (nohup). The descriptor also cancels the
 * wait for the lock, which the end of a child must not. */
void inbox_open(struct inbox *inbox_out)
{
    sigemptyset(&inbox_out->set);
    for (size_t i = 0; i < sizeof forwarded / sizeof forwarded[0]; i++) {
        struct sigaction action;
        sigaction(forwarded[i], NULL, &action);
        if (action.sa_handler != SIG_IGN)
            sigaddset(&inbox_out->set, forwarded[i]);
    }
    signal(SIGCHLD, SIG_DFL); /* if ignored, the command's status would be lost */
    sigset_t blocked = inbox_out->set;
    sigaddset(&blocked, SIGCHLD);
    sigprocmask(SIG_BLOCK, &blocked, &inbox_out->mask);
    inbox_out->signals = signalfd(-1, &inbox_out->set, SFD_CLOEXEC | SFD_NONBLOCK);
}

enum exit_code inbox_die(const struct inbox *inbox)
{
    struct signalfd_siginfo info = {0};
    if (read(inbox->signals, &info, sizeof info) != (ssize_t)sizeof info)
        return EXIT_UNAVAILABLE;
    sigset_t set;
    int number = (int)info.ssi_signo;
    sigemptyset(&set);
    sigaddset(&set, number);
    signal(number, SIG_DFL);
    raise(number);
    sigprocmask(SIG_UNBLOCK, &set, NULL);
    return EXIT_SIGNAL + number;
}

static void signal_command(const struct run *run, int number)
{
    assert(run->pid > 0);
    kill(run->own_group ? -run->pid : run->pid, number);
}

/* Skips a signal from the terminal if the command, in our process group, has it already. */
static void forward_signals(const struct run *run, int signals)
{
    struct signalfd_siginfo info;
    while (read(signals, &info, sizeof info) == (ssize_t)sizeof info)
        if (info.ssi_signo != SIGCHLD && (run->own_group || info.ssi_code != SI_KERNEL))
            signal_command(run, (int)info.ssi_signo);
}

/* ---- descriptors: the command gets the inherited ones, but not our connections ---- */

static bool inherited[DESCRIPTORS_MAX];

void run_note_inherited(void)
{
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
        inherited[fd] = fcntl(fd, F_GETFD) >= 0;
}

static void close_own(int but)
{
    for (int fd = 0; fd < DESCRIPTORS_MAX; fd++)
        if (!inherited[fd] && fd != but)
            close(fd);
}

/* ---- the command ---- */

/* Runs in the child. If seclock is killed, the kernel ends the command, as nobody renews. */
static _Noreturn void become_command(const struct run *run, const sigset_t *mask, pid_t parent,
                                     int report)
{
    if (run->own_group)
        setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent)
        _exit(EXIT_SIGNAL + SIGTERM);
    sigprocmask(SIG_SETMASK, mask, NULL);
    close_own(report);
    fcntl(report, F_SETFD, FD_CLOEXEC); /* exec closes it, which tells that the command runs */
    execvp(run->settings->command[0], run->settings->command);
    int error = errno;
    if (write(report, &error, sizeof error) < 0)
        _exit(EXIT_CANNOT_RUN);
    _exit(error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN);
}

/* Returns 0 once the command runs, or the exit code if it cannot. */
static int start_command(struct run *run, const sigset_t *mask)
{
    assert(run->pid == 0);
    int report[2], error = 0;
    pid_t parent = getpid();
    const char *command = run->settings->command[0];
    if (pipe(report) != 0 || (run->pid = fork()) < 0) {
        say(run->settings, "%s: %s", command, strerror(errno));
        return EXIT_CANNOT_FORK;
    }
    if (run->pid == 0) {
        close(report[0]);
        become_command(run, mask, parent, report[1]);
    }
    close(report[1]);
    bool broken = read(report[0], &error, sizeof error) == (ssize_t)sizeof error;
    close(report[0]);
    if (!broken)
        return 0;
    waitpid(run->pid, NULL, 0);
    say(run->settings, "%s: %s", command, strerror(error));
    return error == ENOENT ? EXIT_NOT_FOUND : EXIT_CANNOT_RUN;
}

static void end_lost(struct run *run)
{
    assert(!run->lost && run->kill_at_ns == 0);
    run->lost = true;
    run->kill_at_ns = clock_now_ns() + (int64_t)run->settings->grace_ms * 1000000;
    say(run->settings, "%s: the lock is lost; ending %s", run->settings->name,
        run->settings->command[0]);
    signal_command(run, SIGTERM);
    signal_command(run, SIGCONT); /* a stopped command would not act on it */
}

/* Returns how long poll may sleep; kills a command whose grace is over. */
static int grace_left_ms(struct run *run)
{
    if (run->kill_at_ns == 0)
        return -1;
    int64_t left_ms = (run->kill_at_ns - clock_now_ns() + 999999) / 1000000;
    if (left_ms > 0)
        return (int)left_ms;
    say(run->settings, "%s: killing %s", run->settings->name, run->settings->command[0]);
    signal_command(run, SIGKILL);
    run->kill_at_ns = 0;
    return -1;
}

/* Waits until the command has ended, and returns its wait status. */
static int attend_command(struct run *run, const struct inbox *inbox, int lost)
{
    assert(run->pid > 0);
    int status = 0;
    sigset_t set = inbox->set;
    struct pollfd fds[] = {
        {.fd = inbox->signals, .events = POLLIN},
        {.fd = lost, .events = POLLIN},
    };
    sigaddset(&set, SIGCHLD);
    signalfd(inbox->signals, &set, SFD_CLOEXEC | SFD_NONBLOCK);
    while (waitpid(run->pid, &status, WNOHANG) == 0) {
        poll(fds, 2, grace_left_ms(run));
        if (fds[0].revents)
            forward_signals(run, inbox->signals);
        if (fds[1].revents) {
            end_lost(run);
            fds[1].fd = -1; /* poll passes it over, and clears its revents */
        }
    }
    return status;
}

static int exit_code_of_command(int status)
{
    return WIFSIGNALED(status) ? EXIT_SIGNAL + WTERMSIG(status) : WEXITSTATUS(status);
}

int run_command(const struct settings *settings, const struct inbox *inbox, int lost,
                bool *lost_out)
{
    assert(settings->command);
    struct run run = {.settings = settings, .own_group = !isatty(STDIN_FILENO)};
    int code = start_command(&run, &inbox->mask);
    if (code == 0)
        code = exit_code_of_command(attend_command(&run, inbox, lost));
    *lost_out = run.lost;
    return code;
}

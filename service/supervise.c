/* Reports to the service manager, by the protocol of sd_notify. */
#include "service/supervise.h"

#include <assert.h>
#include <errno.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/clock.h"
#include "service/log/log.h"

enum {
    POLL_MS = 1000,     /* oldest status */
    START_POLL_MS = 20, /* before the daemon is ready */
    EXTEND_S = 120,     /* a waiting start asks for this, repeatedly */
    FILE_NAME_MAX = 48,
    STATUS_SIZE = 96,
    READY_S = 30,  /* then a prepared daemon counts as started, whatever Redis does */
    HTTP_S = 5,    /* an HTTP thread whose turn takes longer is stuck */
    WORKER_S = 30, /* likewise for a batch, plus its servers' time-outs */
};

/* ---- notes to the manager ---- */

enum {
    MESSAGE_MAX = 1024, /* bytes of one datagram */
    SEND_S = 1,         /* wait no longer than this for the manager */
};

static struct {
    struct sockaddr_un address;
    socklen_t length; /* 0: no manager */
    int64_t
        watchdog_ns; /* how often WATCHDOG=1 is due, half of what it allows; 0: it does not watch */
    bool told_ready;
    int64_t prepared_ns; /* when the daemon was first seen prepared */
    int64_t fed_ns;      /* when the watchdog was last fed */
    char status[STATUS_SIZE];
} manager;

/* Sets a socket in the file system, or with an @ in the abstract name space. */
static bool set_address(const char *name)
{
    size_t length = strlen(name);
    if ((name[0] != '/' && name[0] != '@') || length < 2 ||
        length >= sizeof manager.address.sun_path)
        return false;
    manager.address.sun_family = AF_UNIX;
    memcpy(manager.address.sun_path, name, length + 1);
    if (name[0] == '@')
        manager.address.sun_path[0] = '\0';
    manager.length =
        (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length + (name[0] == '/'));
    return true;
}

/* The variables may be meant for a parent process. */
static int64_t read_watchdog(void)
{
    const char *interval = getenv("WATCHDOG_USEC"), *pid = getenv("WATCHDOG_PID");
    if (!interval || (pid && strtoll(pid, NULL, 10) != getpid()))
        return 0;
    long long us = strtoll(interval, NULL, 10);
    return us > 1 && us < INT64_MAX / 1000 ? us * 1000 / 2 : 0;
}

bool notify_setup(void)
{
    const char *name = getenv("NOTIFY_SOCKET");
    memset(&manager, 0, sizeof manager);
    if (!name || name[0] == '\0')
        return true;
    if (!set_address(name))
        return false;
    manager.watchdog_ns = read_watchdog();
    return true;
}

static bool send_text(const char *text, size_t length)
{
    const struct timeval patience = {.tv_sec = SEND_S};
    int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return false;
    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof patience);
    ssize_t sent = sendto(fd, text, length, MSG_NOSIGNAL, (const struct sockaddr *)&manager.address,
                          manager.length);
    close(fd);
    return sent == (ssize_t)length;
}

bool notify_send(const char *format, ...)
{
    char text[MESSAGE_MAX];
    if (manager.length == 0)
        return true;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    assert(length > 0 && length < MESSAGE_MAX);
    return send_text(text, (size_t)length);
}

static bool sells(const struct supervise_view *view)
{
    return view->prepared && view->redis == HEALTH_OK && view->ledger == HEALTH_OK;
}

static void tell_status(const struct supervise_view *view)
{
    const char *what = !view->prepared ? "Waits for the ledger" : "Refuses orders";
    char status[STATUS_SIZE] = "Sells";
    if (!sells(view))
        snprintf(status, sizeof status, "%s: Redis %s, ledger %s", what, health_word(view->redis),
                 health_word(view->ledger));
    if (strcmp(status, manager.status) != 0 && notify_send("STATUS=%s", status))
        memcpy(manager.status, status, sizeof status);
}

/* A start may wait for its ledger for as long as needed: systemd must not end it. */
static void tell_start(const struct supervise_view *view)
{
    if (view->prepared && manager.prepared_ns == 0)
        manager.prepared_ns = view->now_ns;
    bool waited =
        manager.prepared_ns != 0 && view->now_ns - manager.prepared_ns >= READY_S * CLOCK_NS_PER_S;
    if (view->lets_clients_in && (sells(view) || waited))
        manager.told_ready = notify_send("READY=1");
    else if (view->now_ns - manager.fed_ns >= CLOCK_NS_PER_S) {
        manager.fed_ns = view->now_ns;
        notify_send("EXTEND_TIMEOUT_USEC=%d000000", EXTEND_S);
    }
}

static bool is_alive(const struct supervise_view *view)
{
    int64_t worker_ns = WORKER_S * CLOCK_NS_PER_S + view->patience_ns;
    return view->now_ns - view->http_turned_ns < HTTP_S * CLOCK_NS_PER_S &&
           view->now_ns - view->worker_turned_ns < worker_ns;
}

static void feed_watchdog(const struct supervise_view *view)
{
    if (manager.watchdog_ns == 0 || view->now_ns - manager.fed_ns < manager.watchdog_ns / 2)
        return;
    if (is_alive(view)) {
        manager.fed_ns = view->now_ns;
        notify_send("WATCHDOG=1");
    } else {
        log_event(LOG_ERROR, "thread_stuck", "http_ms=%lld order_worker_ms=%lld effect=%s",
                  (long long)((view->now_ns - view->http_turned_ns) / CLOCK_NS_PER_MS),
                  (long long)((view->now_ns - view->worker_turned_ns) / CLOCK_NS_PER_MS),
                  LOG_QUOTE("the service manager's watchdog is not fed, and ends the daemon"));
    }
}

void supervise_tell(const struct supervise_view *view)
{
    if (manager.length == 0)
        return;
    tell_status(view);
    if (!manager.told_ready)
        tell_start(view);
    else
        feed_watchdog(view);
}

int64_t supervise_pause_ns(void)
{
    int64_t pause_ns = (manager.told_ready ? POLL_MS : START_POLL_MS) * CLOCK_NS_PER_MS;
    if (manager.length == 0)
        return INT64_MAX;
    return manager.watchdog_ns > 0 && manager.watchdog_ns < pause_ns ? manager.watchdog_ns
                                                                     : pause_ns;
}

void supervise_reloaded(void)
{
    if (manager.told_ready)
        notify_send("READY=1");
}

void supervise_migrating(const char *file, int64_t seconds)
{
    notify_send("EXTEND_TIMEOUT_USEC=%d000000\nSTATUS=Changes the tables: %.*s, %lld s", EXTEND_S,
                FILE_NAME_MAX, file, (long long)seconds);
}

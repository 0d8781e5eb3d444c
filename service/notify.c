/* What the daemon tells the service manager that started it, by the protocol of sd_notify(3). */
#include "service/notify.h"

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
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
    MESSAGE_MAX = 1024, /* bytes of one datagram */
    SEND_S = 1,         /* a manager that takes nothing for so long is not waited for */
};

static struct {
    struct sockaddr_un address;
    socklen_t length; /* 0: there is no manager */
    int64_t watchdog_ns;
} manager;

/* A socket in the file system, or one in the abstract name space, written with an @. */
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

/* The variables may be another process's, which has started this one. */
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

bool notify_wanted(void)
{
    return manager.length > 0;
}

int64_t notify_watchdog_ns(void)
{
    return manager.watchdog_ns;
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
    if (!notify_wanted())
        return true;
    va_list arguments;
    va_start(arguments, format);
    int length = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    assert(length > 0 && length < MESSAGE_MAX);
    return send_text(text, (size_t)length);
}

void notify_reloading(void)
{
    notify_send("RELOADING=1\nMONOTONIC_USEC=%lld", (long long)(clock_now_ns() / 1000));
}

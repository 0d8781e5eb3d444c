/* Preloaded into a daemon or a server, shifts two of its clocks: the wall clock, as an
 * administrator does, and the time since boot, as a host's sleep does. The file SHIFTED_CLOCK holds
 * both shifts in ms, as two native 64-bit numbers; a test may write it at any time. */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { WALL, BOOT, SHIFTS };

static const volatile int64_t *shifts; /* NULL: no file, no shift */

static void __attribute__((constructor)) map_file(void)
{
    const char *path = getenv("SHIFTED_CLOCK");
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *map = mmap(NULL, SHIFTS * sizeof *shifts, PROT_READ, MAP_SHARED, fd, 0);
    if (map != MAP_FAILED)
        shifts = map;
    if (fd >= 0)
        close(fd);
}

/* In place of the C library's. */
int clock_gettime(clockid_t clock, struct timespec *now)
{
    int result = (int)syscall(SYS_clock_gettime, clock, now);
    int which = clock == CLOCK_REALTIME ? WALL : clock == CLOCK_BOOTTIME ? BOOT : SHIFTS;
    if (result != 0 || !shifts || which == SHIFTS)
        return result;
    int64_t ms = now->tv_sec * INT64_C(1000) + now->tv_nsec / 1000000 + shifts[which];
    now->tv_sec = (time_t)(ms / 1000);
    now->tv_nsec = ms % 1000 * 1000000 + now->tv_nsec % 1000000;
    return result;
}

/* Likewise: Redis takes the time of day from it. */
int gettimeofday(struct timeval *now, void *zone)
{
    struct timespec exact;
    (void)zone;
    int result = clock_gettime(CLOCK_REALTIME, &exact);
    *now = (struct timeval){exact.tv_sec, exact.tv_nsec / 1000};
    return result;
}

/* The kernel's figures of this process: memory, descriptors, start. */
#include "service/metrics/process_stats.h"

#include <dirent.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

double process_stats_cpu_s(void)
{
    struct timespec used;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
    return (double)used.tv_sec + (double)used.tv_nsec / 1e9;
}

/* The start by the wall clock: now, less the process's age. */
static double read_start(uint64_t start_ticks)
{
    struct timespec now, boot;
    clock_gettime(CLOCK_REALTIME, &now);
    clock_gettime(CLOCK_BOOTTIME, &boot);
    double booted = (double)(now.tv_sec - boot.tv_sec) + (double)(now.tv_nsec - boot.tv_nsec) / 1e9;
    return booted + (double)start_ticks / (double)sysconf(_SC_CLK_TCK);
}

/* Reads the fields of proc(5), which follow the program's name: it is in brackets and may hold
 * anything. */
static void read_stat(struct process_stats *stats)
{
    char line[1024];
    uint64_t start_ticks = 0, pages = 0;
    FILE *file = fopen("/proc/self/stat", "re");
    if (!file)
        return;
    const char *fields = fgets(line, sizeof line, file) ? strrchr(line, ')') : NULL;
    fclose(file);
    if (!fields || sscanf(fields,
                          ") %*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d"
                          " %" SCNu64 " %*d %" SCNu64 " %" SCNu64 " %" SCNu64,
                          &stats->threads, &start_ticks, &stats->virtual_bytes, &pages) != 4)
        return;
    stats->resident_bytes = pages * (uint64_t)sysconf(_SC_PAGESIZE);
    stats->start_s = read_start(start_ticks);
}

static uint64_t count_files(void)
{
    struct stat folder;
    if (stat("/proc/self/fd", &folder) == 0 && folder.st_size > 0)
        return (uint64_t)folder.st_size;
    DIR *files = opendir("/proc/self/fd");
    uint64_t count = 0;
    if (!files)
        return 0;
    for (const struct dirent *file = readdir(files); file; file = readdir(files))
        count += file->d_name[0] != '.';
    closedir(files);
    return count - 1; /* the folder itself */
}

void process_stats_read(struct process_stats *stats_out)
{
    struct rlimit limit;
    *stats_out = (struct process_stats){.files = count_files()};
    read_stat(stats_out);
    if (getrlimit(RLIMIT_NOFILE, &limit) == 0)
        stats_out->files_max = (uint64_t)limit.rlim_cur;
}

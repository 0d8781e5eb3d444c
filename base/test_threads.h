/* The threads of this process, for tests. */
#ifndef SECKILL_BASE_TEST_THREADS_H
#define SECKILL_BASE_TEST_THREADS_H

#include <assert.h>
#include <dirent.h>

static inline int threads_of_process(void)
{
    int count = 0;
    DIR *tasks = opendir("/proc/self/task");
    assert(tasks);
    for (struct dirent *entry; (entry = readdir(tasks));)
        count += entry->d_name[0] != '.';
    closedir(tasks);
    return count;
}

#endif

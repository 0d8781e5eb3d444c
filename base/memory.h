/* Memory that must be had: without it the process ends. With malloc and free, and in place of
 * stdlib.h where nothing else of that is used. */
#ifndef BASE_MEMORY_H
#define BASE_MEMORY_H

#include <stdlib.h>

/* Returns what an allocation has returned, unless that is NULL: then aborts. Any thread. */
static inline void *memory_must(void *memory)
{
    if (!memory)
        abort();
    return memory;
}

#endif

/* Takes the library's memory from the functions of the program that uses it, if it has set any.
 *
 * why_by_the_linker: the sources call malloc, as they do where they are parts of another program.
 * In libseclock the makefile renames these calls, in all files but this one, to the functions
 * below. So there is no allocation that a source could forget to name otherwise. */
#include <stdlib.h>
#include <string.h>

#include "lock/seclock.h"

static void *(*allocate)(size_t size) = malloc;
static void *(*resize)(void *block, size_t size) = realloc;
static void (*give_back)(void *block) = free;

void seclock_use_memory(void *(*use_malloc)(size_t size),
                        void *(*use_realloc)(void *block, size_t size),
                        void (*use_free)(void *block))
{
    allocate = use_malloc;
    resize = use_realloc;
    give_back = use_free;
}

/* ---- for the renamed calls: as malloc(3) and strdup(3) say ---- */

void *seclock_memory_malloc(size_t size);
void *seclock_memory_calloc(size_t count, size_t size);
void *seclock_memory_realloc(void *block, size_t size);
void seclock_memory_free(void *block);
char *seclock_memory_strdup(const char *text);

void *seclock_memory_malloc(size_t size)
{
    return allocate(size);
}

void *seclock_memory_calloc(size_t count, size_t size)
{
    size_t bytes;
    void *block = __builtin_mul_overflow(count, size, &bytes) ? NULL : allocate(bytes);
    return block ? memset(block, 0, bytes) : NULL;
}

void *seclock_memory_realloc(void *block, size_t size)
{
    return resize(block, size);
}

void seclock_memory_free(void *block)
{
    if (block)
        give_back(block);
}

char *seclock_memory_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    char *copy = allocate(size);
    return copy ? memcpy(copy, text, size) : NULL;
}

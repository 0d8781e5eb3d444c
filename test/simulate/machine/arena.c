/* The memory of one schedule: all of it is taken back at once when the next one begins. */
#include "test/simulate/machine/arena.h"

#include <malloc.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

enum { ALIGNMENT = 16, LARGE = 32768, BLOCKS_MAX = 8192 };

/* why_two: large tables are mostly left untouched, so they lie in pages that the kernel clears when
 * they are touched, and takes back together. Small blocks are cleared by hand, which is cheaper. */
struct region {
    size_t size;
    char *start;
    size_t used;
};

static struct region small = {.size = (size_t)64 << 20};
static struct region large = {.size = (size_t)64 << 30}; /* few of its pages are touched */

/* The blocks of the large region: what stood in them would touch a page. */
static struct {
    void *memory;
    size_t size;
} blocks[BLOCKS_MAX];
static size_t block_count;

void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);
char *__wrap_strdup(const char *text);
void __wrap_free(void *memory);
void __real_free(void *memory);

static void *take(struct region *region, size_t size)
{
    if (!region->start) {
        /* At a fixed address, so that nothing depends on where the kernel puts it. */
        uintptr_t at = UINT64_C(0x200000000000) + (region == &large) * (UINT64_C(1) << 36);
        region->start =
            mmap((void *)at, region->size, PROT_READ | PROT_WRITE,
                 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
        if (region->start == MAP_FAILED)
            abort();
    }
    char *memory = region->start + region->used;
    region->used += (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
    if (region->used > region->size)
        abort();
    return memory;
}

static bool within(const struct region *region, const void *memory)
{
    return region->start && (const char *)memory >= region->start &&
           (const char *)memory < region->start + region->size;
}

static void *allocate_large(size_t size)
{
    void *memory = take(&large, size);
    if (block_count == BLOCKS_MAX)
        abort();
    blocks[block_count].memory = memory;
    blocks[block_count++].size = size;
    return memory;
}

/* The size of a small block stands before it, for realloc. */
static void *allocate(size_t size)
{
    if (size >= LARGE)
        return allocate_large(size);
    size_t *block = take(&small, size + ALIGNMENT);
    *block = size;
    return (char *)block + ALIGNMENT;
}

static size_t size_of(const void *memory)
{
    size_t i = block_count;
    if (within(&small, memory))
        return *(const size_t *)((const char *)memory - ALIGNMENT);
    while (i > 0 && blocks[i - 1].memory != memory)
        i--;
    return i > 0 ? blocks[i - 1].size : malloc_usable_size((void *)(uintptr_t)memory);
}

void *__wrap_malloc(size_t size)
{
    return allocate(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    void *memory = allocate(count * size);
    if (within(&small, memory))
        memset(memory, 0, count * size);
    return memory;
}

static bool is_ours(const void *memory)
{
    return within(&small, memory) || within(&large, memory);
}

/* A library's block comes from the system, and goes back to it. */
void *__wrap_realloc(void *memory, size_t size)
{
    void *moved = allocate(size);
    if (!memory)
        return moved;
    size_t had = size_of(memory);
    memcpy(moved, memory, had < size ? had : size);
    __wrap_free(memory);
    return moved;
}

char *__wrap_strdup(const char *text)
{
    size_t size = strlen(text) + 1;
    return memcpy(allocate(size), text, size);
}

void __wrap_free(void *memory)
{
    if (memory && !is_ours(memory))
        __real_free(memory);
}

void arena_touch(void *memory, size_t size)
{
    uintptr_t page = (uintptr_t)memory / 4096 * 4096;
    madvise((void *)page, size, MADV_POPULATE_READ); /* only a hint */
}

void arena_reset(void)
{
    if (large.used > 0)
        madvise(large.start, (large.used + 4095) / 4096 * 4096, MADV_DONTNEED);
    small.used = large.used = block_count = 0;
}

/* Private to lock/: holds in the order in which their actions are due. */
#ifndef LOCK_DUE_HEAP_H
#define LOCK_DUE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct seclock_handle;

/* Part of a handle, so that the heap allocates nothing for a hold and searches for none. */
struct due {
    struct seclock_handle *handle;
    int64_t at_ns;
    size_t slot; /* in its heap, from 1; 0: not there */
};

struct due_heap {
    struct due **slots;
    size_t count, room;
};

/* Puts `due` in, or moves it to another time. False: no memory, and it is not in; never when it was
 * in before. */
bool due_put(struct due_heap *heap, struct due *due, int64_t at_ns);

/* Takes `due` out, if it is in. */
void due_remove(struct due_heap *heap, struct due *due);

/* Returns the first one to be due; NULL: the heap is empty. */
struct due *due_first(const struct due_heap *heap);

/* Frees the heap's memory, not the handles. */
void due_heap_free(struct due_heap *heap);

#endif

/* Private to lock/: holds in the order in which something is due for them. */
#ifndef LOCK_DUE_HEAP_H
#define LOCK_DUE_HEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct seclock_handle;

/* Part of a handle, so that nothing has to be allocated or looked up for one. */
struct due {
    struct seclock_handle *handle;
    int64_t at_ns;
    size_t place; /* in its heap, from 1; 0: not there */
};

struct due_heap {
    struct due **slots;
    size_t count, room;
};

/* Puts it in, or moves it to another time. False: no memory, and it is not in; never for one that
 * was. */
bool due_put(struct due_heap *heap, struct due *due, int64_t at_ns);

/* Takes it out, if it is in. */
void due_remove(struct due_heap *heap, struct due *due);

/* What is due first; NULL: nothing is in. */
struct due *due_first(const struct due_heap *heap);

/* Frees the heap's memory, not what is in it. */
void due_heap_free(struct due_heap *heap);

#endif

/* Keeps holds in a binary heap by when they are due; each knows its own slot. */
#include "lock/due_heap.h"

#include <assert.h>
#include <stdlib.h>

static void set(struct due_heap *heap, size_t slot, struct due *due)
{
    assert(slot >= 1 && slot <= heap->count);
    heap->slots[slot - 1] = due;
    due->slot = slot;
}

static bool before(const struct due_heap *heap, size_t slot, size_t other)
{
    return heap->slots[slot - 1]->at_ns < heap->slots[other - 1]->at_ns;
}

static void swap(struct due_heap *heap, size_t slot, size_t other)
{
    struct due *due = heap->slots[slot - 1];
    set(heap, slot, heap->slots[other - 1]);
    set(heap, other, due);
}

/* Moves the entry at a slot to the place of its time. */
static void settle(struct due_heap *heap, size_t slot)
{
    for (; slot > 1 && before(heap, slot, slot / 2); slot /= 2)
        swap(heap, slot, slot / 2);
    for (size_t child; (child = 2 * slot) <= heap->count; slot = child) {
        if (child < heap->count && before(heap, child + 1, child))
            child++;
        if (!before(heap, child, slot))
            break;
        swap(heap, child, slot);
    }
}

/* Moving a hold within the heap takes no memory, so a renewal cannot fail for lack of memory after
 * its acquisition has succeeded. */
bool due_put(struct due_heap *heap, struct due *due, int64_t at_ns)
{
    assert(due->slot == 0 || heap->slots[due->slot - 1] == due);
    if (due->slot == 0 && heap->count == heap->room) {
        size_t room = heap->room > 0 ? 2 * heap->room : 64;
        struct due **slots = realloc(heap->slots, room * sizeof *slots);
        if (!slots)
            return false;
        heap->slots = slots;
        heap->room = room;
    }
    if (due->slot == 0)
        set(heap, ++heap->count, due);
    due->at_ns = at_ns;
    settle(heap, due->slot);
    return true;
}

/* The last entry takes the free slot, and moves up or down from there. */
void due_remove(struct due_heap *heap, struct due *due)
{
    size_t slot = due->slot;
    if (slot == 0)
        return;
    assert(slot <= heap->count && heap->slots[slot - 1] == due);
    struct due *last = heap->slots[--heap->count];
    due->slot = 0;
    if (last == due)
        return;
    set(heap, slot, last);
    settle(heap, slot);
}

struct due *due_first(const struct due_heap *heap)
{
    return heap->count > 0 ? heap->slots[0] : NULL;
}

void due_heap_free(struct due_heap *heap)
{
    free(heap->slots);
    *heap = (struct due_heap){0};
}

/* A binary heap of holds by when they are due; each knows its own place in it. */
#include "lock/due_heap.h"

#include <stdlib.h>

static void set(struct due_heap *heap, size_t place, struct due *due)
{
    heap->slots[place - 1] = due;
    due->place = place;
}

static bool before(const struct due_heap *heap, size_t place, size_t other)
{
    return heap->slots[place - 1]->at_ns < heap->slots[other - 1]->at_ns;
}

static void swap(struct due_heap *heap, size_t place, size_t other)
{
    struct due *due = heap->slots[place - 1];
    set(heap, place, heap->slots[other - 1]);
    set(heap, other, due);
}

/* Moves what is at a place to where its time belongs. */
static void settle(struct due_heap *heap, size_t place)
{
    for (; place > 1 && before(heap, place, place / 2); place /= 2)
        swap(heap, place, place / 2);
    for (size_t child; (child = 2 * place) <= heap->count; place = child) {
        if (child < heap->count && before(heap, child + 1, child))
            child++;
        if (!before(heap, child, place))
            break;
        swap(heap, child, place);
    }
}

bool due_put(struct due_heap *heap, struct due *due, int64_t at_ns)
{
    if (due->place == 0 && heap->count == heap->room) {
        size_t room = heap->room > 0 ? 2 * heap->room : 64;
        struct due **slots = realloc(heap->slots, room * sizeof *slots);
        if (!slots)
            return false;
        heap->slots = slots;
        heap->room = room;
    }
    if (due->place == 0)
        set(heap, ++heap->count, due);
    due->at_ns = at_ns;
    settle(heap, due->place);
    return true;
}

void due_remove(struct due_heap *heap, struct due *due)
{
    size_t place = due->place;
    if (place == 0)
        return;
    struct due *last = heap->slots[--heap->count];
    due->place = 0;
    if (last == due)
        return;
    set(heap, place, last);
    settle(heap, place);
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

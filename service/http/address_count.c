/* How many connections each client address has: a hash table with a chain in each slot. It has an
 * entry only for addresses that have connections. */
#include "service/http/address_count.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/hash.h"

enum { SLOTS = 4096 };

struct entry {
    struct entry *next;
    unsigned connections;
    char text[NETWORKS_TEXT_SIZE];
};

struct address_count {
    pthread_mutex_t mutex;
    unsigned max;
    struct entry *slots[SLOTS];
};

struct address_count *address_count_open(unsigned max)
{
    struct address_count *count = calloc(1, sizeof *count);
    if (!count)
        abort();
    count->max = max;
    pthread_mutex_init(&count->mutex, NULL);
    return count;
}

void address_count_close(struct address_count **count_pointer)
{
    struct address_count *count = *count_pointer;
    *count_pointer = NULL;
    if (!count)
        return;
    for (size_t i = 0; i < SLOTS; i++)
        assert(!count->slots[i]);
    pthread_mutex_destroy(&count->mutex);
    free(count);
}

/* Where the pointer to the address' entry is, or would be. The mutex is held. */
static struct entry **find(struct address_count *count, const char *text)
{
    struct entry **at = &count->slots[hash_slot(text, SLOTS)];
    while (*at && strcmp((*at)->text, text) != 0)
        at = &(*at)->next;
    return at;
}

bool address_count_full(struct address_count *count, const struct address *address)
{
    char text[NETWORKS_TEXT_SIZE];
    address_text(address, text);
    pthread_mutex_lock(&count->mutex);
    const struct entry *entry = *find(count, text);
    bool full = entry && entry->connections >= count->max;
    pthread_mutex_unlock(&count->mutex);
    return full;
}

void address_count_add(struct address_count *count, const struct address *address)
{
    char text[NETWORKS_TEXT_SIZE];
    address_text(address, text);
    pthread_mutex_lock(&count->mutex);
    struct entry **at = find(count, text);
    if (!*at) {
        *at = calloc(1, sizeof **at);
        if (!*at)
            abort();
        snprintf((*at)->text, sizeof(*at)->text, "%s", text);
    }
    (*at)->connections++;
    pthread_mutex_unlock(&count->mutex);
}

void address_count_remove(struct address_count *count, const struct address *address)
{
    char text[NETWORKS_TEXT_SIZE];
    address_text(address, text);
    pthread_mutex_lock(&count->mutex);
    struct entry **at = find(count, text);
    struct entry *entry = *at;
    assert(entry && entry->connections > 0);
    if (--entry->connections == 0) {
        *at = entry->next;
        free(entry);
    }
    pthread_mutex_unlock(&count->mutex);
}

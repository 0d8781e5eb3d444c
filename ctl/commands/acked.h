/* Ids of orders that clients saw accepted, and which of them a listing has shown. */
#ifndef SECKILL_CTL_COMMANDS_ACKED_H
#define SECKILL_CTL_COMMANDS_ACKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct acked {
    uint64_t *ids; /* sorted, each once */
    bool *seen;
    size_t count;
    size_t repeats; /* ids that stood in the file once more */
};

/* Reads a file of ids, one a line; "-" is standard input. False after a message. The caller frees
 * it. */
bool acked_read(struct acked *acked_out, const char *path);
void acked_free(struct acked *acked);

void acked_see(struct acked *acked, uint64_t id);

/* Forgets what was seen. */
void acked_restart(struct acked *acked);

/* How many were not seen; the first of them. */
size_t acked_missing(const struct acked *acked, uint64_t *first_out);

#endif

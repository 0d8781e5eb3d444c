/* Ids of orders that clients saw accepted, and which of them a listing has shown. */
#include "ctl/commands/acked.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/options.h"
#include "ctl/output/say.h"

enum { LINE_SIZE = 64 };

static int compare(const void *a, const void *b)
{
    const uint64_t *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void add(struct acked *acked, size_t *size, uint64_t id)
{
    if (acked->count == *size) {
        *size = *size ? *size * 2 : 1024;
        acked->ids = realloc(acked->ids, *size * sizeof *acked->ids);
        if (!acked->ids)
            abort();
    }
    acked->ids[acked->count++] = id;
}

static bool read_lines(struct acked *acked, FILE *file, const char *path)
{
    char line[LINE_SIZE];
    size_t size = 0, number = 0;
    int64_t id = 0;
    while (fgets(line, sizeof line, file)) {
        number++;
        line[strcspn(line, "\r\n")] = '\0';
        if (line[0] == '\0')
            continue;
        if (!number_parse(line, 1, INT64_MAX, &id)) {
            say("%s:%zu: not the id of an order", path, number);
            return false;
        }
        add(acked, &size, (uint64_t)id);
    }
    return true;
}

static void sort(struct acked *acked)
{
    size_t kept = 0;
    if (acked->count > 0)
        qsort(acked->ids, acked->count, sizeof *acked->ids, compare);
    for (size_t i = 0; i < acked->count; i++)
        if (i == 0 || acked->ids[i] != acked->ids[i - 1])
            acked->ids[kept++] = acked->ids[i];
    acked->repeats = acked->count - kept;
    acked->count = kept;
    acked->seen = calloc(kept + 1, sizeof *acked->seen);
    if (!acked->seen)
        abort();
}

bool acked_read(struct acked *acked_out, const char *path)
{
    *acked_out = (struct acked){.ids = NULL};
    bool standard = strcmp(path, "-") == 0;
    FILE *file = standard ? stdin : fopen(path, "re");
    if (!file) {
        say("%s: %s", path, strerror(errno));
        return false;
    }
    bool good = read_lines(acked_out, file, path);
    if (!standard)
        fclose(file);
    if (good)
        sort(acked_out);
    else
        acked_free(acked_out);
    return good;
}

void acked_free(struct acked *acked)
{
    free(acked->ids);
    free(acked->seen);
    *acked = (struct acked){.ids = NULL};
}

void acked_see(struct acked *acked, uint64_t id)
{
    uint64_t *found =
        acked->count ? bsearch(&id, acked->ids, acked->count, sizeof id, compare) : NULL;
    if (found)
        acked->seen[found - acked->ids] = true;
}

void acked_restart(struct acked *acked)
{
    for (size_t i = 0; i < acked->count; i++)
        acked->seen[i] = false;
}

size_t acked_missing(const struct acked *acked, uint64_t *first_out)
{
    size_t missing = 0;
    for (size_t i = 0; i < acked->count; i++)
        if (!acked->seen[i] && missing++ == 0)
            *first_out = acked->ids[i];
    return missing;
}

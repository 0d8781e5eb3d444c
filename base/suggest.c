/* Suggests the name that a misspelt one was meant to be. */
#include "base/suggest.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

enum { DISTANCE_MAX = 2 }; /* typing errors up to which a name is suggested */

/* Levenshtein's distance, row by row; far more than DISTANCE_MAX for a text that is too long to be
 * a name. */
static size_t edit_distance(const char *a, const char *b)
{
    size_t row[SUGGEST_NAME_MAX + 1]; /* row[j]: from the first i characters of a to j of b */
    size_t width = strlen(b);
    if (strlen(a) > SUGGEST_NAME_MAX || width > SUGGEST_NAME_MAX)
        return SIZE_MAX;
    for (size_t j = 0; j <= width; j++)
        row[j] = j;
    for (size_t i = 0; a[i]; i++) {
        size_t diagonal = row[0];
        row[0] = i + 1;
        for (size_t j = 0; j < width; j++) {
            size_t best = diagonal + (a[i] != b[j]);
            diagonal = row[j + 1];
            if (row[j] + 1 < best)
                best = row[j] + 1;
            if (diagonal + 1 < best)
                best = diagonal + 1;
            row[j + 1] = best;
        }
    }
    return row[width];
}

static bool is_end_of_word(char c)
{
    return c == '-' || c == '_';
}

/* True when the text begins or ends with the name, as whole words. */
static bool holds(const char *text, const char *name)
{
    size_t length = strlen(text), part = strlen(name);
    return length > part &&
           ((strncmp(text, name, part) == 0 && is_end_of_word(text[part])) ||
            (strcmp(text + length - part, name) == 0 && is_end_of_word(text[length - part - 1])));
}

void suggest(struct suggestion *suggestion, const char *name)
{
    size_t distance = edit_distance(suggestion->wanted, name), length = strlen(name);
    bool near = distance <= DISTANCE_MAX && (distance == 0 || distance + 1 < length);
    if (!near && !holds(suggestion->wanted, name))
        return;
    if (!near)
        distance = DISTANCE_MAX + 1;
    if (distance < suggestion->distance && length <= SUGGEST_NAME_MAX) {
        suggestion->distance = distance;
        snprintf(suggestion->name, sizeof suggestion->name, "%s", name);
    }
}

/* Suggests the name that a misspelt one was meant to be. */
#ifndef BASE_SUGGEST_H
#define BASE_SUGGEST_H

#include <stddef.h>

enum { SUGGEST_NAME_MAX = 40 }; /* characters of a name that can be suggested */

/* The nearest to a wrong name among the names offered one after the other. Begins with
 * {.wanted = …, .distance = SIZE_MAX}; `name` is empty while none is near enough. A name is offered
 * as it is written, with dashes or underscores between its words. */
struct suggestion {
    const char *wanted;
    char name[SUGGEST_NAME_MAX + 1];
    size_t distance;
};

/* Offers one name. Near is a name with one or two typing errors, fewer in a short one; and
 * otherwise a name that the wrong one begins or ends with as whole words: "limit" for
 * "per-user-limit". */
void suggest(struct suggestion *suggestion, const char *name);

#endif

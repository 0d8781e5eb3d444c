/* What a client of a remote server notes of its failures. */
#include "base/fault.h"

#include <string.h>

static void copy(char *out, size_t size, const char *text)
{
    size_t length = strlen(text);
    if (length >= size)
        length = size - 1;
    memmove(out, text, length); /* the text may be the one that is there */
    out[length] = '\0';
}

void fault_note(struct fault *fault, const char *doing, const char *error)
{
    copy(fault->doing, sizeof fault->doing, doing);
    copy(fault->error, sizeof fault->error, error);
    fault->count++;
}

void fault_note_damage(struct fault *fault, const char *error)
{
    fault_note(fault, "check", error);
    fault->damaged = true;
}

void fault_clear(struct fault *fault)
{
    fault->count = 0;
    fault->damaged = false;
}

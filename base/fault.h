/* What a client of a remote server notes of its failures, for the caller that writes the log. */
#ifndef BASE_FAULT_H
#define BASE_FAULT_H

#include <stdbool.h>

/* All zeros: nothing has failed. One per client; it belongs to the client's thread. */
struct fault {
    unsigned count;  /* failures since the last fault_clear */
    bool damaged;    /* one of them: the server has a row that makes no sense */
    char doing[48];  /* what the client was at in the last of them: "connect", "UPDATE orders" */
    char error[256]; /* why the last of them failed */
};

/* Notes one failure; cuts texts that are too long. The texts may be those of the fault itself. */
void fault_note(struct fault *fault, const char *doing, const char *error);

/* The same for a row that makes no sense; `error` names it by its key. */
void fault_note_damage(struct fault *fault, const char *error);

/* Forgets what was noted: from now on only what fails later counts. */
void fault_clear(struct fault *fault);

#endif

/* Prints answers, or why a call has not ended well; returns the exit status. */
#ifndef SECKILL_CTL_OUTPUT_ANSWER_H
#define SECKILL_CTL_OUTPUT_ANSWER_H

#include "ctl/http.h"

/* The exit status for a call that has not ended well. */
int answer_status(const struct reply *reply);

/* The line that tells how to repeat the command; the caller frees it. */
char *answer_repeat(const struct context *context, const char *repeat);

/* EX_OK for an answer that is OK and has a JSON object; else the exit status, after a message that
 * says why. `repeat`: the options that make a repeat of the command harmless, such as "--key K",
 * for an unknown outcome; NULL if a repeat needs no more. */
int answer_check(const struct context *context, const struct reply *reply, const char *repeat);

/* Makes a call that needs no more for a repeat. EX_OK: the caller frees the reply, whose JSON is an
 * object. Else the exit status after a message, and there is nothing to free. */
int answer_ask(struct context *context, const struct call *call, struct reply *reply_out);

/* Likewise, GET as an operator. */
int answer_get(struct context *context, const char *path, struct reply *reply_out);

/* The pages of a listing. An answer names in `next` where the following page begins, also when it
 * is short or empty; the last one names nothing. */
struct pages {
    enum call_class class;
    const char *path; /* encoded, with a query or without; after=… is added */
    bool patient;     /* tries a page anew for the time-out: a daemon may just be restarting */
    /* Takes a page, a JSON object. Any other status than EX_OK ends the walk; EX_PROTOCOL does so
     * with a message. */
    int (*take)(void *argument, json_t *page);
    void *argument;
    char after[USER_ID_SIZE]; /* where the present page begins; empty: at the beginning */
};

/* Gets all pages. EX_OK, or the exit status after a message. */
int answer_pages(struct context *context, struct pages *pages);

/* Prints the value as one line of JSON on standard output. Where there are several pods, an object
 * gets the number of the present one. */
void answer_print(const struct context *context, json_t *value);

/* Likewise, for a value that several pods have answered together. */
void answer_print_all(const json_t *value);

/* A member of an answer; 0 or "" if the answer lacks it. */
json_int_t answer_integer(const json_t *object, const char *name);
const char *answer_text(const json_t *object, const char *name);

#endif

/* Prints answers, or why a call did not succeed; returns the exit status. */
#ifndef SECKILL_CTL_OUTPUT_ANSWER_H
#define SECKILL_CTL_OUTPUT_ANSWER_H

#include "ctl/http.h"

/* Returns the exit status for a call that did not succeed. */
int answer_status(const struct reply *reply);

/* Returns the line that tells how to repeat the command; the caller frees it. */
char *answer_repeat(const struct context *context, const char *repeat);

/* Returns EX_OK for an answer that is OK and has a JSON object; else the exit status, after a
 * message that says why. `repeat`: options that make a repeat of the command harmless after an
 * unknown outcome, such as "--key K"; NULL if it needs none. */
int answer_check(const struct context *context, const struct reply *reply, const char *repeat);

/* Makes a call whose repeat needs no options. EX_OK: the caller frees the reply, whose JSON is an
 * object. Else returns the exit status after a message, and nothing is to be freed. */
int answer_ask(struct context *context, const struct call *call, struct reply *reply_out);

/* Does the same for a GET as an operator. */
int answer_get(struct context *context, const char *path, struct reply *reply_out);

/* The pages of a listing. `next` in an answer names the beginning of the following page, also when
 * the page is short or empty; the last page has none. */
struct pages {
    enum call_class class;
    const char *path; /* encoded, with a query or without; after=… is added */
    bool patient;     /* retries a page for the time-out: a daemon may just be restarting */
    /* Takes a page, a JSON object. Any other status than EX_OK ends the walk; EX_PROTOCOL does so
     * with a message. */
    int (*take)(void *argument, json_t *page);
    void *argument;
    char after[PLAIN_SIZE]; /* the present page's beginning; empty: the first page */
};

/* Gets all pages. EX_OK, or the exit status after a message. */
int answer_pages(struct context *context, struct pages *pages);

/* Gets the pages of each pod that the command may ask, and prints the rows of all: their array is
 * the member `name` of a page. With several pods, a row gets the number of its own. The worst exit
 * status; what has come is shown in any case. */
int answer_list(struct context *context, struct pages *pages, const char *name,
                void (*print)(json_t *rows));

/* Prints the value as one line of JSON on standard output. With several pods, an object gets the
 * number of the present one. */
void answer_print(const struct context *context, json_t *value);

/* Does the same for a value that several pods have answered together. */
void answer_print_all(const json_t *value);

/* With --json prints the object as answer_print does; else `print` prints it as the only row. */
void answer_print_row(const struct context *context, json_t *row, void (*print)(json_t *rows));

/* Returns a member of an answer; 0 or "" if the answer lacks it. */
long long answer_integer(const json_t *object, const char *name);
const char *answer_text(const json_t *object, const char *name);

#endif

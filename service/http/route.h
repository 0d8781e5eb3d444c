/* The calls there are: what each takes, who handles it, and how long it may wait. */
#ifndef SECKILL_SERVICE_HTTP_ROUTE_H
#define SECKILL_SERVICE_HTTP_ROUTE_H

#include "service/calls/call.h"

struct route {
    const char *method;
    const char *path;
    bool prefix; /* what follows the path, or begins at its {name}, is the handler's `tail` */
    bool admin;  /* needs the token */
    bool body;   /* needs a JSON body */
    enum call_kind kind; /* which worker carries it; none, when the handler answers at once */
    call_handler *start;
};

/* The route of a request, a constant. NULL with the problem and, for a wrong method, the methods
 * that the path takes. */
const struct route *route_find(const char *method, const char *url, enum problem *problem_out,
                               const char **allow_out);

/* Where the handler's `tail` begins in the url. */
size_t route_tail(const struct route *route);

#endif

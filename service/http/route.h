/* The calls there are: what each takes, who handles it, and how long it may wait. */
#ifndef SECKILL_SERVICE_HTTP_ROUTE_H
#define SECKILL_SERVICE_HTTP_ROUTE_H

#include "service/calls/calls.h"

/* Who calls, and by which credential. */
enum route_class {
    ROUTE_BUYER, /* orders and what buyers look at: none of ours */
    ROUTE_SHOP,  /* the shop's own calls: the shop token, when one is set */
    ROUTE_ADMIN, /* the operator's calls: the admin token */
    ROUTE_OPS,   /* what machines ask about the service's health: none */
    ROUTE_LIVE,  /* the servers of the group, and what they said: the admin token, unless the option
                  * demo is on or the client is on this machine */
    ROUTE_OPEN,  /* the description of the interface: none, and served everywhere */
    ROUTE_CLASSES
};

/* Sets of classes, as sums of ROUTE_BIT. */
#define ROUTE_BIT(class) (1U << (class))
#define ROUTE_ALL (ROUTE_BIT(ROUTE_CLASSES) - 1)
#define ROUTE_OPERATORS_OWN (ROUTE_BIT(ROUTE_ADMIN) | ROUTE_BIT(ROUTE_OPS) | ROUTE_BIT(ROUTE_LIVE))
#define ROUTE_OPERATORS (ROUTE_OPERATORS_OWN | ROUTE_BIT(ROUTE_OPEN))
#define ROUTE_PUBLIC (ROUTE_BIT(ROUTE_BUYER) | ROUTE_BIT(ROUTE_SHOP) | ROUTE_BIT(ROUTE_OPEN))

/* Of these the times are in the histograms of their kinds. */
#define ROUTE_MEASURED (ROUTE_BIT(ROUTE_BUYER) | ROUTE_BIT(ROUTE_SHOP) | ROUTE_BIT(ROUTE_ADMIN))

struct route {
    const char *method;
    const char *path;
    bool prefix; /* what follows the path, or begins at its {name}, is the handler's `tail` */
    enum route_class class;
    bool body;           /* needs a JSON body */
    enum call_kind kind; /* which worker carries it; none, when the handler answers at once */
    call_handler *start;
};

/* A path, and how it was spelt: a proxy may have rules for paths as they are spelt, so only the
 * part that a {name} stands for may be percent-encoded. */
struct route_path {
    const char *text;              /* decoded */
    size_t plain_head, plain_tail; /* characters before the first encoded one, and after the last */
};

/* Notes where a raw path is encoded, up to its query. */
void route_note_encoding(const char *uri, struct route_path *path_out);

/* The route of a request, a constant, out of those whose class is in the set `classes`. NULL with
 * the problem and, for a wrong method, the methods that the path takes. */
const struct route *route_find(unsigned classes, const char *method, const struct route_path *path,
                               enum problem *problem_out, const char **allow_out);

/* Where the handler's `tail` begins in the url. */
size_t route_tail(const struct route *route);

#endif

/* Private to http*.c: a front, and what its parts do for each other. */
#ifndef SECKILL_SERVICE_HTTP_PRIVATE_H
#define SECKILL_SERVICE_HTTP_PRIVATE_H

#include <microhttpd.h>
#include <pthread.h>

#include "service/handlers.h"
#include "service/http.h"

enum {
    RECEIVE_MS_MAX = 10000,   /* from a request's first line to the end of its body */
    IDLE_CONNECTION_S = 120,  /* for a connection without a request */
    CONNECTION_MEMORY = 8192, /* bytes libmicrohttpd may use per connection, headers included */
    ADMIN_DEADLINE_EXTRA_MS = 5000, /* admin calls wait for locks: lease, deadline and this */

    /* Requests that wait for a lane are asked after in every turn of the loop: cheaper than
     * MHD_suspend_connection, which costs two epoll_ctl and a vain recv each, as long as they are
     * not too many. Beyond this number they are suspended. */
    PARKED_MAX = 1024,
};

/* Requests in order of their time limits; each list has limits of one length. */
struct request_list {
    struct request *first, *last;
};

/* One client's connection, kept as libmicrohttpd's socket context from the moment it is accepted
 * until it is closed. Everything that needs the connection goes through here, and a request points
 * here as long as somebody waits for its answer; closing takes that pointer away. libmicrohttpd
 * does not report the end of every request, but it reports the end of every connection. */
struct http_connection {
    struct MHD_Connection *mhd;
    struct request *request; /* the one that is being received or answered, or NULL */
    bool answered;           /* an answer to it was queued, or written past libmicrohttpd */
};

enum wait_list { LIST_RECEIVING, LIST_ORDERS, LIST_CALLS, LIST_ADMIN, LIST_COUNT };

struct front {
    struct service *service;
    pthread_t thread;
    struct MHD_Daemon *daemon;
    int listen_fd;
    int wake_fd;   /* eventfd */
    int hangup_fd; /* epoll: connections whose client has closed its side */
    int loop_fd;   /* epoll: the daemon's own epoll, wake_fd and hangup_fd */

    _Atomic(struct request *) returned; /* those that came back from lanes and desks */

    /* The front's thread only. */
    struct request_list lists[LIST_COUNT];
    struct request *orders_first, *orders_last; /* read in this turn, for the lanes */
    struct request *spare;                      /* freed requests */
    size_t connections;                         /* open ones */
    size_t parked;
    size_t away;       /* sent on and not come back */
    size_t replies;    /* queued in the last run of libmicrohttpd */
    size_t answers;    /* of these, to requests that had waited */
    unsigned runs_due; /* of libmicrohttpd, before the front may wait again */
    int64_t now_ns;    /* of this turn */
    bool draining;
    bool ending; /* its last turns: nothing may be sent on any more */
    struct MHD_Response *problems[2][PROBLEM_COUNT]; /* [1]: and close the connection */
};

struct route {
    const char *method;
    const char *path;
    bool prefix; /* what follows the path, or begins at its {name}, is the handler's `tail` */
    bool admin;  /* wants the token */
    bool body;   /* wants a JSON body */
    enum wait_list list;
    enum start_result (*start)(struct service *service, struct request *request,
                               const struct call *call);
};

/* http.c */
void front_list_add(struct front *front, enum wait_list list, struct request *request);
void front_list_remove(struct request *request);
struct request *front_request_new(struct front *front, struct http_connection *connection);
void front_request_free(struct front *front, struct request *request);

/* http_route.c: finds the route; else the problem, and for a wrong method what is allowed. */
const struct route *route_find(const char *method, const char *url, enum problem *problem_out,
                               const char **allow_out);

/* Where the handler's `tail` begins. */
size_t route_tail(const struct route *route);

/* http_exchange.c: libmicrohttpd's callbacks. */
enum MHD_Result exchange_access(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *upload_data,
                                size_t *upload_data_size, void **con_cls);
void exchange_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
                         enum MHD_ConnectionNotificationCode code);
void *exchange_begin(void *cls, const char *uri, struct MHD_Connection *mhd);
void exchange_end(void *cls, struct MHD_Connection *mhd, void **con_cls,
                  enum MHD_RequestTerminationCode reason);
size_t exchange_unescape(void *cls, struct MHD_Connection *connection, char *text);

/* Sends a request, whose state is `from`, on to a desk, or to the lanes with all others of this
 * turn; the queue has a place for it. */
void exchange_send(struct front *front, struct request *request, enum request_state from);

/* Takes the request away from its connection, which then waits for no answer any more. A request
 * that a lane or desk has is carried through all the same and freed when it comes back. */
void exchange_abandon(struct front *front, struct http_connection *connection);

/* http_stream.c: what reads the request's stream, for as long as the request is there. */
struct MHD_Response *stream_response(struct request *request);

/* http_reply.c */
void reply_prepare(struct front *front);
void reply_discard(struct front *front);

/* Queues the request's answer; the request stays until it is written. */
enum MHD_Result reply_answer(struct front *front, struct http_connection *connection,
                             struct request *request);

/* Queues a fixed problem, with an Allow header unless `allow` is NULL. */
enum MHD_Result reply_problem(struct front *front, struct http_connection *connection,
                              enum problem problem, const char *allow);

/* Queues the answer for a request whose deadline came while somebody else has it. */
enum MHD_Result reply_expired(struct front *front, struct http_connection *connection,
                              struct request *request);

/* For a connection whose request libmicrohttpd will never hand over: writes a problem past it,
 * unless the request was answered before, and shuts the connection down. */
void reply_past_libmicrohttpd(struct http_connection *connection, enum problem problem);

#endif

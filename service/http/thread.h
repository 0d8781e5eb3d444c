/* What one HTTP thread owns, for the files of this folder; all others see loop.h. But for what is
 * marked otherwise only the thread itself may touch it. */
#ifndef SECKILL_SERVICE_HTTP_THREAD_H
#define SECKILL_SERVICE_HTTP_THREAD_H

#include "base/worker.h"
#include "service/config/address.h"
#include "service/request/request.h"
#include "service/service.h"

enum {
    CONNECTION_MEMORY = 8192
}; /* bytes libmicrohttpd may use per connection, headers included */

struct MHD_Connection;
struct MHD_Daemon;
struct MHD_Response;
struct http_room;

/* Connections in order of since_ns. */
struct connection_list {
    struct http_connection *first, *last;
};

/* One client's connection, kept as libmicrohttpd's socket context from the moment it is accepted
 * until it is closed. Everything that needs the connection goes through here, and a request points
 * here as long as somebody waits for its answer; closing takes that pointer away. libmicrohttpd
 * does not report the end of every request, but it reports the end of every connection. */
struct http_connection {
    struct MHD_Connection *mhd;
    int fd;                  /* libmicrohttpd's */
    struct request *request; /* the one that is being received or answered, or NULL */
    bool answered;           /* an answer to it was queued, or written past libmicrohttpd */

    struct connection_list *list;        /* the one of the thread's lists it is in, or NULL */
    struct http_connection *prev, *next; /* in that list */
    int64_t since_ns;                    /* when it came into that list, or the last one */

    /* The part of room.c. */
    struct http_thread *thread;
    bool known; /* its client has taken an answer, and leaves none lying; or is owed one */
    bool busy;  /* a complete request has no answer yet */
    bool told_to_go;
};

enum { HTTP_LINES = 3 }; /* of held calls, see fair.c */

/* The credit of held calls: fair.c. */
struct http_fair {
    size_t orders;       /* sent to order workers and not come back */
    int64_t crowded_ns;  /* when many orders were in flight */
    int64_t answered_ns; /* when an order was answered */
    int64_t counted_ns;  /* up to when time has added to the credit */
    int64_t credit;
    struct http_line {
        size_t seen;  /* calls of this turn that might have been held */
        size_t held;  /* calls that are held */
        size_t going; /* held calls that may go on in this turn */
    } lines[HTTP_LINES];
};

/* The access log: reply.c. */
struct http_access {
    unsigned seen;            /* requests since the last one of the sample */
    int64_t second;           /* of the last failure */
    unsigned failures;        /* that left a line in it */
    unsigned long suppressed; /* failures since without a line */
};

struct http_thread {
    struct service *service;
    unsigned classes; /* of calls that it serves, see route.h */
    const char *name;

    struct worker worker;
    struct MHD_Daemon *daemon;
    int listen_fd;
    bool listen_inherited;  /* the next daemon goes on listening on it */
    int hangup_fd;          /* epoll: connections whose client has closed its side */
    int64_t hangups_due_ns; /* when they are looked at again */
    bool hangups_unseen;    /* the last turn did not look, and may have read past one */
    int loop_fd;            /* epoll: the daemon's own epoll and home.wake_fd */

    struct request_home home; /* requests that came back from workers */
    struct http_fair fair;
    struct http_access access;
    /* Orders read in this turn, linked by queue_next, for the order workers. */
    struct order_list {
        struct request *first, *last;
    } orders;
    struct request *free_requests;
    struct http_room *room;
    struct connection_list waiting[2]; /* for their clients; [1]: known ones, see room.c */
    struct connection_list sending;    /* their clients have begun a request, see room.c */
    size_t strangers;                  /* connections that are not known */
    size_t busy; /* connections whose request is complete: asked about in every turn */
    _Atomic size_t connections;  /* open ones; others may read */
    _Atomic unsigned room_asked; /* connections that others ask the thread to close */
    int64_t room_log_ns;         /* when the next line about connections may be logged */
    size_t in_flight;            /* requests sent on and not come back */
    size_t replies;              /* queued in the last run of libmicrohttpd */
    size_t answers;              /* of these, to requests that had waited */
    size_t accepts;              /* clients that connected in the last run */
    size_t accepts_seen;         /* and since the last look at those that wait, see loop.c */
    bool stuck;                  /* at that look clients waited, and none had been accepted */
    int64_t stuck_look_ns;       /* when to look again */
    unsigned runs_due;           /* of libmicrohttpd, before the thread may wait again */
    int64_t now_ns;              /* of this turn */
    _Atomic int64_t turned_ns;   /* the same, which others may read */
    bool closing;                /* answers close their connections */
    bool ending;                 /* its last turns: nothing may be sent on any more */
    struct MHD_Response *problems[2][PROBLEM_COUNT]; /* [1]: and close the connection */
    size_t problem_bytes[PROBLEM_COUNT];             /* of their texts */
};

/* From now on the connection waits for its client: for the first line of a request, or until the
 * client has taken an answer, or the next piece of it. */
void waiting_add(struct http_thread *thread, struct http_connection *connection);

/* The connection is given an answer, and waits for its client to take it: a stranger until then. */
void waiting_answered(struct http_thread *thread, struct http_connection *connection);

/* The client has taken the answer: the connection is known, and waits for the next request. */
void waiting_served(struct http_thread *thread, struct http_connection *connection);

/* Puts the connection at the end of one of the thread's lists, out of the one that it is in. */
void connection_list_add(struct http_thread *thread, struct connection_list *list,
                         struct http_connection *connection);

/* Does nothing when the connection is in no list. */
void connection_list_remove(struct http_connection *connection);

/* The client's request is complete, and is not given up for another client: it is known until it is
 * answered. May be called again. */
void waiting_busy(struct http_thread *thread, struct http_connection *connection);

/* The request has its answer, or the connection is being closed. */
void waiting_not_busy(struct http_thread *thread, struct http_connection *connection);

/* Asserts that the table in thread.c has the transition. */
void request_phase(struct request *request, enum http_phase phase);

/* True while a queue or a worker has the request. */
bool request_in_flight(const struct request *request);

/* The queue of the request's kind. */
struct queue *request_queue(struct service *service, const struct request *request);

/* Sends a request that was read on to a call worker, or to the order workers with all
 * other orders of this turn. The caller has reserved its place in the queue. */
void request_send(struct http_thread *thread, struct request *request);

#endif

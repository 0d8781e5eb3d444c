/* What the files of this folder share: HTTP threads, their connections, and the requests on these.
 * Others see server.h. What belongs to an HTTP thread only that thread may touch, but for what is
 * marked otherwise. */
#ifndef SECKILL_SERVICE_HTTP_HTTP_H
#define SECKILL_SERVICE_HTTP_HTTP_H

#include <microhttpd.h>

#include "base/worker.h"
#include "service/calls/calls.h"
#include "service/config/address.h"
#include "service/http/listen.h"

enum {
    CONNECTION_MEMORY = 8192, /* bytes libmicrohttpd may use per connection, headers included */
    HTTP_LINES = 3,           /* of held calls, see fair.c */
};

/* ---- connections: connection.c ---- */

/* What a connection waits for. */
enum connection_state {
    CONNECTION_STRANGER, /* its first request, or that its client takes the last answer */
    CONNECTION_SENDING,  /* the rest of a request */
    CONNECTION_SERVED, /* the next request: its client has taken an answer, and leaves none lying */
    CONNECTION_BUSY,   /* the answer to a complete request */
    CONNECTION_GOING,  /* libmicrohttpd, which is about to see that it was shut down */
    CONNECTION_STATES
};

/* The connections of one state, in order of since_ns. */
struct connection_list {
    struct http_connection *first, *last;
    size_t count;
};

/* One client's connection, kept as libmicrohttpd's socket context from the moment it is accepted
 * until it is closed. Everything that needs the connection goes through here, and a request points
 * here as long as somebody waits for its answer; closing takes that pointer away. libmicrohttpd
 * does not report the end of every request, but it reports the end of every connection. */
struct http_connection {
    struct http_thread *thread;
    struct MHD_Connection *mhd;
    int fd;                  /* libmicrohttpd's */
    struct request *request; /* the one that is being received or answered, or NULL */
    bool answered;           /* an answer to it was queued, or written past libmicrohttpd */
    enum connection_state state;
    int64_t since_ns;                    /* when it came into that state */
    struct http_connection *prev, *next; /* in the list of that state */
};

/* One listener: its threads, and the room for connections that they share. */
struct http_room {
    unsigned classes;        /* of calls that its threads serve, see ROUTE_BIT */
    const char *thread_name; /* of each */
    bool inherited;          /* the next daemon goes on listening on its sockets */
    unsigned most;           /* places, as configured */
    struct connection_use *use;
    struct http_room *beside; /* the other listener's, with the same descriptors; or NULL */
    struct http_thread *threads[LISTENER_SOCKETS_MAX];
    _Atomic size_t thread_count; /* of those that have joined: the first serve already */
};

/* How many connections a thread's libmicrohttpd may have before it accepts no more. */
unsigned room_accept_max(const struct http_room *room);

/* Whether a further client may connect. */
bool room_admits(const struct http_room *room);

/* Clients wait and are not accepted. If there are places, descriptors are lacking: where most
 * connections are, at this listener or the other one, there are fewer places from now on, and some
 * that wait for their clients are closed. */
void room_shrink(struct http_thread *thread);

/* Clients are accepted: some of the places that room_shrink has taken away come back. */
void room_grow(struct http_room *room);

/* Makes the http_connection of an accepted connection. Where that is one too many, another one is
 * closed: of this thread, or of the thread that has most. A complete request is never given up. */
struct http_connection *connection_open(struct http_thread *thread, struct MHD_Connection *mhd);

/* Frees the http_connection of a connection that is being closed and has no request any more. */
void connection_close(struct http_connection *connection);

/* The connection waits for something else, or anew; one that is GOING stays so. */
void connection_move(struct http_connection *connection, enum connection_state state);

/* Answers requests that have not come whole in time, and closes connections that have waited for
 * idle_ms, and those that other threads have asked for. */
void connection_expire(struct http_thread *thread);

/* When the next of them is due; INT64_MAX: none. */
int64_t connection_due_ns(const struct http_thread *thread);

/* ---- HTTP threads: loop.c ---- */

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
    struct http_room *room;
    struct worker worker;
    struct MHD_Daemon *daemon;
    int listen_fd;
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
    struct connection_list lists[CONNECTION_STATES];
    _Atomic size_t connections;  /* open ones; others may read */
    _Atomic unsigned room_asked; /* connections that others ask the thread to close */
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
    struct http_problem {
        struct MHD_Response *response; /* without an id */
        size_t bytes;                  /* of its text */
    } problems[PROBLEM_COUNT];
};

/* Starts an HTTP thread on a listening socket, which it owns from now on. NULL with the reason in
 * `error_out`; then the socket is still the caller's. Main thread. */
struct http_thread *http_start(struct service *service, struct http_room *room, int listen_fd,
                               char *error_out, size_t error_size);

/* Waits for the thread to end: once it is at SERVICE_DRAINS, every accepted request is answered,
 * or drain_ms have passed. */
void http_join(struct http_thread *thread);

/* Frees it, after all workers have ended. NULL is fine. */
void http_close(struct http_thread **thread);

/* ---- orders first: fair.c ---- */

/* Counts what time has added to the credit, and what may go on in this turn. */
void fair_begin_turn(struct http_thread *thread);

/* Takes the calls that came so far for those of an earlier turn, when a turn takes long: a few
 * clients that ask again and again in it are no crowd. */
void fair_count_anew(struct http_thread *thread);

/* Whether a request that is complete may be handled now. Otherwise it is held, and libmicrohttpd
 * asks again in each run. */
bool fair_admit(struct http_thread *thread, struct request *request);

/* The request is handled, or nobody waits for it any more: it is not held. */
void fair_let_go(struct http_thread *thread, struct request *request);

/* A request was sent on to a worker of its kind; it has come back from there. */
void fair_sent(struct http_thread *thread, enum call_kind kind);
void fair_returned(struct http_thread *thread, enum call_kind kind);

/* ---- one exchange with a client: exchange.c ---- */

/* libmicrohttpd's callbacks; `cls` is the http_thread. */

/* MHD_AcceptPolicyCallback. */
enum MHD_Result exchange_accept(void *cls, const struct sockaddr *from, socklen_t length);

/* MHD_OPTION_NOTIFY_CONNECTION: makes the http_connection, and frees it. */
void exchange_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
                         enum MHD_ConnectionNotificationCode code);

/* MHD_OPTION_URI_LOG_CALLBACK: the first line of a request was read. Returns what libmicrohttpd
 * gives to exchange_access and exchange_end: the http_connection. */
void *exchange_begin(void *cls, const char *uri, struct MHD_Connection *mhd);

/* MHD_OPTION_UNESCAPE_CALLBACK: percent-decoding in place. */
size_t exchange_unescape(void *cls, struct MHD_Connection *mhd, char *text);

/* MHD_AccessHandlerCallback: called when the headers were read, for each piece of the body, at the
 * end of the request, and in every run while a complete request waits.
 *
 * why_polled: for a request that waits for a worker, or is held, this costs a function call per run
 * and no system call. Suspending its connection instead costs epoll_ctl twice and a recv that finds
 * nothing, and libmicrohttpd would forget whether the client has closed its side. */
enum MHD_Result exchange_access(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *upload_data,
                                size_t *upload_data_size, void **con_cls);

/* MHD_OPTION_NOTIFY_COMPLETED: the answer was written, or libmicrohttpd gave up. */
void exchange_end(void *cls, struct MHD_Connection *mhd, void **con_cls,
                  enum MHD_RequestTerminationCode reason);

/* Takes the request away from its connection, which then waits for no answer any more. A request
 * that a queue or a worker has is carried through all the same, and freed when it comes back. */
void exchange_abandon(struct http_connection *connection);

/* A request came back from a worker: its answer is sent in the next run, if a client still waits
 * for one. */
void exchange_return(struct http_thread *thread, struct request *request);

/* Frees the memory of all free requests, at the end. */
void exchange_free_requests(struct http_thread *thread);

/* ---- answers: reply.c ---- */

/* Makes the thread's shared responses, and destroys them once the daemon has stopped. */
void reply_prepare(struct http_thread *thread);
void reply_discard(struct http_thread *thread);

/* Queues the request's answer; the request stays until it is written. */
enum MHD_Result reply_answer(struct http_connection *connection, struct request *request);

/* Queues a fixed problem as the answer to the request. */
enum MHD_Result reply_problem(struct http_connection *connection, const struct request *request,
                              enum problem problem);

/* Queues the answer for a request whose deadline came while a queue or a worker has it. */
enum MHD_Result reply_expired(struct http_connection *connection, struct request *request);

/* For a connection whose request libmicrohttpd will never hand over: writes a problem past it,
 * unless the request was answered before, and shuts the connection down. */
void reply_past_libmicrohttpd(struct http_connection *connection, enum problem problem);

/* Decides whether the access log will have a line of the request, as access_log says. When the head
 * of the request was read. */
void access_sample(struct http_thread *thread, struct request *request);

/* Writes the address of a connection's client, as far as trusted proxies tell it. */
void access_address(const struct http_connection *connection, char text_out[NETWORKS_TEXT_SIZE]);

/* ---- the calls there are: route.c ---- */

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

/* ---- heads of requests: head.c ---- */

/* Cuts a query that has too many parameters out of libmicrohttpd's own buffer; true when it did.
 * For MHD_OPTION_URI_LOG_CALLBACK, before libmicrohttpd parses the query. */
bool head_cut_query(const char *uri);

/* What libmicrohttpd hands over of the first line of a request. The texts are its own. */
struct head_line {
    const char *method, *url, *version;
    size_t uri_length; /* of what is the url by now, before it was decoded, with its query */
    bool bad_target;   /* see head_read_target */
};

/* Notes of a target, as it was sent: its length, where its path begins (behind the scheme and the
 * host of an absolute one), and whether it holds what no target has. */
void head_read_target(const char *uri, struct request_http *http);

/* PROBLEM_NONE, or why the head cannot be trusted, or the request's end is in doubt or too far
 * away. Either way `trace_out` is what the head calls the request. */
enum problem head_check(struct MHD_Connection *mhd, const struct head_line *line,
                        struct trace *trace_out);

/* The value of a header, or NULL. */
const char *head_value(struct MHD_Connection *mhd, const char *name);

/* The token in Authorization, or NULL. */
const char *head_bearer(struct MHD_Connection *mhd);

/* True unless a browser says that the request comes from a page of another origin than the one it
 * was sent to. Other clients send no Origin. The host of an absolute target, which is what precedes
 * `path_at` in the url, takes the place of Host (RFC 9112, 3.2.2). */
bool head_own_origin(struct MHD_Connection *mhd, const char *url, size_t path_at);

/* True when Content-Type is application/json. */
bool head_json(struct MHD_Connection *mhd);

/* Fills in the call's query parameters. */
void head_parameters(struct MHD_Connection *mhd, struct call *call);

/* Writes the address of the client, as far as trusted proxies tell it; "" when there is none. */
void head_address(struct MHD_Connection *mhd, const struct networks *proxies,
                  char text_out[NETWORKS_TEXT_SIZE]);

/* True when the client is on this machine, as far as anybody can tell: no proxy names another. */
bool head_local(struct MHD_Connection *mhd);

/* True when the request leaves too little of the connection's memory for the head of an answer. */
bool head_leaves_no_room(struct MHD_Connection *mhd);

#endif

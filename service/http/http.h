/* Internals shared by the files of this folder: HTTP threads, connections and their requests. Other
 * folders include server.h. Only the owning HTTP thread may touch its data, except where noted. */
#ifndef SECKILL_SERVICE_HTTP_HTTP_H
#define SECKILL_SERVICE_HTTP_HTTP_H

#include <microhttpd.h>
#include <sys/queue.h>

#include "base/worker.h"
#include "service/calls/calls.h"
#include "service/config/address.h"
#include "service/http/listen.h"

/* How a version reads heads decides what head_check must look for, and what is left to say when it
 * refuses one. */
#if MHD_VERSION != 0x00097500 && MHD_VERSION != 0x01000100 && MHD_VERSION != 0x01001000 &&         \
    !defined SECKILL_ANY_LIBMICROHTTPD
/* clang-format off */
#error "seckill was tested with libmicrohttpd 0.9.75, 1.0.1 and 1.0.10; this is another version. \
To build with it: make test TESTS=test/http CPPFLAGS=-DSECKILL_ANY_LIBMICROHTTPD"
/* clang-format on */
#endif

enum {
    CONNECTION_MEMORY = 8192, /* bytes libmicrohttpd may use per connection, headers included */
    HTTP_LINES = 3,           /* queues of held calls, see fair.c */
};

/* A function as MHD_queue_response. */
typedef enum MHD_Result http_queue(struct MHD_Connection *, unsigned, struct MHD_Response *);

/* ---- connections: connection.c ---- */

/* The connection's state: what it is waiting for. */
enum connection_state {
    CONNECTION_STRANGER, /* its first request, or for its client to read the last answer */
    CONNECTION_SENDING,  /* the rest of a request */
    CONNECTION_SERVED,   /* the next request: its client has read the last answer */
    CONNECTION_BUSY,     /* the answer to a complete request */
    CONNECTION_GOING,    /* libmicrohttpd, which will notice the shutdown and close it */
    CONNECTION_STATES
};

/* The connections of one state, in order of since_ns. */
struct connection_list {
    TAILQ_HEAD(, http_connection) all;
    size_t count;
};

/* One client's connection: libmicrohttpd's socket context from the accept to the close. A request
 * points here as long as somebody waits for its answer; closing clears that pointer, because
 * libmicrohttpd reports the end of every connection, but not of every request. */
struct http_connection {
    struct http_thread *thread;
    struct MHD_Connection *mhd;
    int fd;                  /* libmicrohttpd's */
    struct request *request; /* being received or answered; or NULL */
    bool asked;              /* the first line of a request was read */
    bool last;               /* it ends with the answer to its last request */
    bool answered;           /* its answer was queued, or written past libmicrohttpd */
    enum connection_state state;
    int64_t since_ns; /* when it entered `state` */
    TAILQ_ENTRY(http_connection) in_list;
};

/* One listener: its threads and the connection limit that they share. */
struct http_room {
    unsigned classes;        /* classes of calls that its threads serve, see ROUTE_BIT */
    const char *thread_name; /* of each */
    bool inherited;          /* systemd keeps its sockets open for the next daemon */
    unsigned most;           /* configured limit of connections */
    struct connection_use *use;
    struct http_room *beside; /* the other listener, which shares the descriptor limit; or NULL */
    struct http_thread *threads[LISTENER_SOCKETS_MAX];
    _Atomic size_t thread_count; /* threads that serve already; may still be growing */
};

/* Connections at which a thread's libmicrohttpd stops accepting. */
unsigned room_accept_max(const struct http_room *room);

/* True when a further client may connect. */
bool room_admits(const struct http_room *room);

/* To be called when clients wait but none is accepted. If places are left, the process lacks
 * descriptors: lowers the limit of the listener whose thread has most connections, this one's or
 * the other's, and closes some of its connections that wait for their clients. */
void room_shrink(struct http_thread *thread);

/* To be called when clients are accepted: restores some of the places that room_shrink took
 * away. */
void room_grow(struct http_room *room);

/* Makes the http_connection of an accepted connection. Beyond the limit it closes another one, of
 * this thread or of the thread that has most, but never one with a complete request. */
struct http_connection *connection_open(struct http_thread *thread, struct MHD_Connection *mhd);

/* What reading a byte from its socket would return now: 0 when its client has closed its side. */
ssize_t connection_peek(const struct http_connection *connection);

/* Frees the http_connection of a closing connection, which must have no request. */
void connection_close(struct http_connection *connection);

/* Changes the state, or restarts its time; GOING is final. */
void connection_move(struct http_connection *connection, enum connection_state state);

/* Answers requests that are incomplete at their deadline, and closes connections that have been
 * waiting for idle_ms or that other threads have asked to close. */
void connection_expire(struct http_thread *thread);

/* When connection_expire is next due; INT64_MAX: never. */
int64_t connection_due_ns(const struct http_thread *thread);

/* ---- HTTP threads: loop.c ---- */

/* The credit that held calls need, see fair.c. */
struct http_fair {
    size_t orders;       /* with order workers */
    int64_t crowded_ns;  /* last time that many orders were in flight */
    int64_t answered_ns; /* last time that an order was answered */
    int64_t counted_ns;  /* the credit includes time up to here */
    int64_t credit;
    struct http_line {
        size_t seen;  /* calls in this turn that may be held */
        size_t held;  /* calls held now */
        size_t going; /* held calls that may proceed in this turn */
    } lines[HTTP_LINES];
};

/* State of the access log, see reply.c. */
struct http_access {
    unsigned seen;            /* requests since the last sampled one */
    int64_t second;           /* in which the last failure was logged */
    unsigned failures;        /* logged in that second */
    unsigned long suppressed; /* failures since then without a line */
};

struct http_thread {
    struct service *service;
    struct http_room *room;
    struct worker worker;
    struct MHD_Daemon *daemon;
    http_queue *queue; /* queues an answer with libmicrohttpd */
    int listen_fd;
    int hangup_fd;          /* epoll: connections whose client has closed its side */
    int64_t hangups_due_ns; /* when they are read next */
    bool hangups_unseen;    /* the last turn did not look and may have missed one */
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
    _Atomic size_t connections;  /* open; other threads may read it */
    _Atomic unsigned room_asked; /* connections that other threads ask this one to close */
    size_t in_flight;            /* requests in queues or with workers */
    size_t readers;              /* those of them that are for the feed */
    size_t replies;              /* answers queued in the last run of libmicrohttpd */
    size_t answers;              /* those of them to requests that had waited */
    size_t accepts;              /* clients accepted in the last run */
    size_t accepts_seen;         /* accepted since the last check, see unstick */
    bool stuck;                  /* at that check clients waited and none had been accepted */
    int64_t stuck_look_ns;       /* when to check again */
    unsigned runs_due;           /* runs of libmicrohttpd needed before the thread may wait */
    int64_t now_ns;              /* time at which this turn began */
    _Atomic int64_t turned_ns;   /* copy of now_ns that other threads may read */
    bool closing;                /* answers close their connections */
    bool ending;                 /* last turns: no request goes to a worker any more */
    struct http_problem {
        struct MHD_Response *response; /* without an id */
        size_t bytes;                  /* of the text */
    } problems[PROBLEM_COUNT];
};

/* Starts an HTTP thread on a listening socket, which it owns from now on. NULL with the reason in
 * service->error; then the socket is still the caller's. Main thread. */
struct http_thread *http_start(struct service *service, struct http_room *room, int listen_fd);

/* Waits for the thread to end: after SERVICE_DRAINS began, once every accepted request is answered
 * or drain_ms have passed. */
void http_join(struct http_thread *thread);

/* Frees it, after all workers have ended. NULL is fine. */
void http_close(struct http_thread **thread);

/* ---- orders first: fair.c ---- */

/* Adds the elapsed time to the credit, and shares it out to this turn's held calls. */
void fair_begin_turn(struct http_thread *thread);

/* For a turn that takes long: treats the calls so far as an earlier turn's, so that a few clients
 * that call repeatedly within the turn do not count as a crowd. */
void fair_count_anew(struct http_thread *thread);

/* True when a complete request may be handled now. False: it is held, and libmicrohttpd asks again
 * in each run. */
bool fair_admit(struct http_thread *thread, struct request *request);

/* Ends the hold of a request that is handled, or for which nobody waits any more. */
void fair_let_go(struct http_thread *thread, struct request *request);

/* Count a request that goes to a worker of its kind, and one that comes back. */
void fair_sent(struct http_thread *thread, enum call_kind kind);
void fair_returned(struct http_thread *thread, enum call_kind kind);

/* ---- one exchange with a client: exchange.c ---- */

/* libmicrohttpd's callbacks; `cls` is the http_thread. */

/* MHD_AcceptPolicyCallback. */
enum MHD_Result exchange_accept(void *cls, const struct sockaddr *from, socklen_t length);

/* MHD_OPTION_NOTIFY_CONNECTION: makes and frees the http_connection. */
void exchange_connection(void *cls, struct MHD_Connection *mhd, void **socket_context,
                         enum MHD_ConnectionNotificationCode code);

/* MHD_OPTION_URI_LOG_CALLBACK: the first line of a request was read. Returns what libmicrohttpd
 * gives to exchange_access and exchange_end: the http_connection. */
void *exchange_begin(void *cls, const char *uri, struct MHD_Connection *mhd);

/* MHD_OPTION_UNESCAPE_CALLBACK: percent-decoding in place. */
size_t exchange_unescape(void *cls, struct MHD_Connection *mhd, char *text);

/* MHD_AccessHandlerCallback: called after the headers, for each piece of the body, at the end of
 * the request, and in every run while a complete request waits.
 *
 * why_polled: polling a request that waits for a worker, or is held, costs a function call per run
 * and no system call. Suspending its connection would cost epoll_ctl twice and a recv that finds
 * nothing, and libmicrohttpd would forget whether the client has closed its side. */
enum MHD_Result exchange_access(void *cls, struct MHD_Connection *mhd, const char *url,
                                const char *method, const char *version, const char *upload_data,
                                size_t *upload_data_size, void **con_cls);

/* MHD_OPTION_NOTIFY_COMPLETED: the answer was written, or libmicrohttpd gave up. */
void exchange_end(void *cls, struct MHD_Connection *mhd, void **con_cls,
                  enum MHD_RequestTerminationCode reason);

/* Detaches the request from its connection. A request in a queue or with a worker is still carried
 * through, and freed when it comes back. */
void exchange_abandon(struct http_connection *connection);

/* Takes a request back from a worker: if its client still waits, the next run sends the answer. */
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

/* Queues the answer to a request whose deadline passed in a queue or with a worker. */
enum MHD_Result reply_expired(struct http_connection *connection, struct request *request);

/* For a request that libmicrohttpd refuses or gives up, or whose head leaves it too little memory
 * for an answer: writes a problem past libmicrohttpd and shuts the connection down. */
void reply_past_libmicrohttpd(struct http_connection *connection, enum problem problem);

/* Likewise the answer that libmicrohttpd was given, when it had no memory to send it. */
void reply_again(struct http_connection *connection);

/* Decides whether the access log gets a line for the request (access_log). Call when the head was
 * read. */
void access_sample(struct http_thread *thread, struct request *request);

/* Writes the client's address, as far as trusted proxies tell it. */
void access_address(const struct http_connection *connection, char text_out[NETWORKS_TEXT_SIZE]);

/* ---- libmicrohttpd's own refusals: refusal.c ---- */

/* MHD_queue_response of libmicrohttpd, which our function of that name hides. */
http_queue *refusal_library_queue(void);

/* True when libmicrohttpd closes a connection because it could not make a request of what it has
 * read, and does not say so. */
bool refusal_silent(const struct http_connection *connection);

/* ---- routes: route.c ---- */

/* Who calls, and the credential that the call needs. */
enum route_class {
    ROUTE_BUYER, /* orders and what buyers look at: no credential */
    ROUTE_SHOP,  /* the shop's own calls: the shop token, when one is set */
    ROUTE_ADMIN, /* the operator's calls: the admin token */
    ROUTE_OPS,   /* health checks and metrics: no credential */
    ROUTE_LIVE,  /* the group's servers and their errors: the admin token, unless the option demo is
                  * on or the client is on this machine */
    ROUTE_OPEN,  /* the API description: no credential, served on every listener */
    ROUTE_CLASSES
};

/* Sets of classes, as sums of ROUTE_BIT. */
#define ROUTE_BIT(class) (1U << (class))
#define ROUTE_ALL (ROUTE_BIT(ROUTE_CLASSES) - 1)
#define ROUTE_OPERATORS_OWN (ROUTE_BIT(ROUTE_ADMIN) | ROUTE_BIT(ROUTE_OPS) | ROUTE_BIT(ROUTE_LIVE))
#define ROUTE_OPERATORS (ROUTE_OPERATORS_OWN | ROUTE_BIT(ROUTE_OPEN))
#define ROUTE_PUBLIC (ROUTE_BIT(ROUTE_BUYER) | ROUTE_BIT(ROUTE_SHOP) | ROUTE_BIT(ROUTE_OPEN))

/* Classes whose response times are measured, in the histogram of the call's kind. */
#define ROUTE_MEASURED (ROUTE_BIT(ROUTE_BUYER) | ROUTE_BIT(ROUTE_SHOP) | ROUTE_BIT(ROUTE_ADMIN))

struct route {
    const char *method;
    const char *path; /* the rest from a {name} on, or behind a last slash, is the `tail` */
    enum route_class class;
    bool body;           /* needs a JSON body */
    enum call_kind kind; /* the worker for it, if the handler does not answer at once */
    call_handler *start;
};

/* A path and which parts of it were percent-encoded: only the part that a {name} stands for may be,
 * because a proxy may have rules for paths as they are spelt. */
struct route_path {
    const char *text;              /* decoded */
    size_t plain_head, plain_tail; /* characters before the first encoded one, and after the last */
};

/* Notes where a raw path, up to its query, is percent-encoded. */
void route_note_encoding(const char *uri, struct route_path *path_out);

/* Finds the route, a constant, among those of the set `classes`. NULL with the problem and, for a
 * wrong method, the methods that the path takes. */
const struct route *route_find(unsigned classes, const char *method, const struct route_path *path,
                               enum problem *problem_out, const char **allow_out);

/* Where the handler's `tail` begins in the url. */
size_t route_tail(const struct route *route);

/* ---- heads of requests: head.c ---- */

/* Options of libmicrohttpd, as MHD_OPTION_ARRAY takes them: from 1.0 on it refuses what RFC 9112
 * forbids in a head. */
struct MHD_OptionItem *head_options(void);

/* True unless the library that is loaded reads heads otherwise than the one that this program was
 * built with. */
bool head_library_fits(void);

/* Cuts a query with too many parameters in libmicrohttpd's own buffer; true when it did. For
 * MHD_OPTION_URI_LOG_CALLBACK, before libmicrohttpd parses the query. */
bool head_cut_query(const char *uri);

/* The first line of a request as libmicrohttpd hands it over, and owns the texts. */
struct head_line {
    const char *method, *url, *version;
    size_t uri_length; /* of the raw url, with its query */
    bool bad_target;   /* see head_read_target */
};

/* Notes the raw target's length, where its path begins (behind the scheme and host of an absolute
 * target), and whether it holds characters that no target may have. */
void head_read_target(const char *uri, struct request_http *http);

/* Checks the head: PROBLEM_NONE, or a problem when it cannot be trusted, the request's end is
 * uncertain or too far away, a header that decides comes twice, or the head is too large. In any
 * case `trace_out` gets the request's ids, `memory_out` the bytes of its connection's memory that
 * the head of a body in chunks takes (0: no such body), and `closes_out` whether the connection is
 * to end with the answer. */
enum problem head_check(struct MHD_Connection *mhd, const struct head_line *line,
                        struct trace *trace_out, size_t *memory_out, bool *closes_out);

/* The problem of a request that libmicrohttpd refuses with this status; it may have read the head
 * in part. `http` is NULL when it has not read the first line. */
enum problem head_refused(struct MHD_Connection *mhd, unsigned status,
                          const struct request_http *http);

/* The value of a header, or NULL. */
const char *head_value(struct MHD_Connection *mhd, const char *name);

/* The token in Authorization, or NULL. */
const char *head_bearer(struct MHD_Connection *mhd);

/* False when a browser says that the request comes from a page of another origin than its target.
 * Other clients send no Origin. The host of an absolute target, which precedes `path_at` in the
 * url, takes the place of Host (RFC 9112, 3.2.2). */
bool head_own_origin(struct MHD_Connection *mhd, const char *url, size_t path_at);

/* True when Content-Type is application/json. */
bool head_json(struct MHD_Connection *mhd);

/* Fills in the call's query parameters. */
void head_parameters(struct MHD_Connection *mhd, struct call *call);

/* Writes the client's address, as far as trusted proxies tell it; "" without one. */
void head_address(struct MHD_Connection *mhd, const struct networks *proxies,
                  char text_out[NETWORKS_TEXT_SIZE]);

/* True when the client is on this machine and no proxy names another. */
bool head_local(struct MHD_Connection *mhd);

/* True when the fields behind a body in chunks, with a head of so many bytes, leave too little
 * memory for an answer's head. */
bool head_leaves_no_room(struct MHD_Connection *mhd, size_t memory);

/* ---- what libmicrohttpd 0.9.75 lets pass: head_0_9.c ---- */

/* Its texts of a head lie in one buffer, in order, and each of their ends shows as NULs. */
struct head_gaps {
    const char *end; /* of the text before */
    bool broken;     /* something else than a line's end stands between two texts */
};

/* Begins behind the first line. */
void head_gaps_begin(struct head_gaps *gaps, const struct head_line *line);

/* Notes a header; `end` is the end of its value, or of its name if it has none. */
void head_gaps_header(struct head_gaps *gaps, const char *name, const char *end);

/* True when nothing else stood between the texts, nor behind the last of `size` bytes. */
bool head_gaps_intact(struct head_gaps *gaps, const struct head_line *line, size_t size);

#endif

/* What the head of a request says: where it ends, who sends it, and from where. */
#ifndef SECKILL_SERVICE_HTTP_HEAD_H
#define SECKILL_SERVICE_HTTP_HEAD_H

#include "service/calls/calls.h"

struct MHD_Connection;

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

/* The token in Authorization, or NULL. */
const char *head_bearer(struct MHD_Connection *mhd);

/* True unless a browser says that the request comes from a page of another origin than the one it
 * was sent to. Other clients send no Origin. The host of an absolute target, which is what precedes
 * `path_at` in the url, takes the place of Host (RFC 9112, 3.2.2). */
bool head_own_origin(struct MHD_Connection *mhd, const char *url, size_t path_at);

/* The header's value for the log, "" when it is missing. */
const char *head_origin(struct MHD_Connection *mhd);
const char *head_host(struct MHD_Connection *mhd);

/* True when Content-Type is application/json. */
bool head_json(struct MHD_Connection *mhd);

/* Idempotency-Key, or NULL. */
const char *head_key(struct MHD_Connection *mhd);

/* If-None-Match, or NULL. */
const char *head_if_none_match(struct MHD_Connection *mhd);

/* Fills in the call's query parameters. */
void head_parameters(struct MHD_Connection *mhd, struct call *call);

/* Writes the address of the client, as far as trusted proxies tell it; "" when there is none. */
void head_address(struct MHD_Connection *mhd, const struct networks *proxies,
                  char text_out[NETWORKS_TEXT_SIZE]);

/* True when the client is on this machine, as far as anybody can tell: no proxy names another. */
bool head_local(struct MHD_Connection *mhd);

/* True when the request leaves too little of the connection's `memory` for the head of an
 * answer. */
bool head_leaves_no_room(struct MHD_Connection *mhd, size_t memory);

#endif

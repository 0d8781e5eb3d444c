/* One exchange with a client: libmicrohttpd's callbacks, from the accept to the answer written. All
 * run on the HTTP thread, whose struct is their `cls`. */
#ifndef SECKILL_SERVICE_HTTP_EXCHANGE_H
#define SECKILL_SERVICE_HTTP_EXCHANGE_H

#include <microhttpd.h>

#include "service/http/thread.h"

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

#endif

/* All HTTP threads of the daemon and the sockets that they listen on. */
#ifndef SECKILL_SERVICE_HTTP_SERVER_H
#define SECKILL_SERVICE_HTTP_SERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "service/service.h"

struct http_server;

/* Descriptors for connections briefly above the limits, see ROOM_EXTRA in connection.c. */
enum { HTTP_FILES_EXTRA = 64 };

/* Takes the addresses of `listen` and `admin_listen`, or the sockets that systemd has passed in
 * their place. Nobody can connect to `listen` yet, and no thread runs. NULL with the reason in
 * service->error. */
struct http_server *http_server_open(struct service *service);

/* Starts the thread of admin_listen, if that is set. Operators may have connected before, so all
 * that any of their pages shows is there by now. False with the reason in service->error. */
bool http_server_start_admin(struct http_server *server);

/* The address that buyers use, as logged; lives as long as the server. */
const char *http_server_address(const struct http_server *server);

/* How long, in ns, the daemon may get ready before it lets clients in: 0 where clients would be
 * refused meanwhile and rather hear that it is not ready; longer where another daemon serves them
 * or systemd lets them wait. */
int64_t http_server_patience_ns(const struct http_server *server);

/* Lets clients in, and writes `listening` to the log. False with the reason in service->error. */
bool http_server_start(struct http_server *server);

/* True once http_server_start has let clients in. */
bool http_server_started(const struct http_server *server);

/* Start time of the oldest current loop turn among its threads (monotonic). Main thread. */
int64_t http_server_turned_ns(const struct http_server *server);

/* Call once service->phase is SERVICE_DRAINS: waits until every request is answered and all HTTP
 * threads have ended. NULL is fine. */
void http_server_drain(struct http_server *server);

/* Frees everything, after all workers have ended, and sets the pointer to NULL. NULL is fine. */
void http_server_close(struct http_server **server);

#endif

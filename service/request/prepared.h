/* Prepared answers: each is made once and answers many requests. */
#ifndef SECKILL_SERVICE_REQUEST_PREPARED_H
#define SECKILL_SERVICE_REQUEST_PREPARED_H

#include <stdbool.h>
#include <stddef.h>

struct MHD_Response;
struct prepared;

enum { PREPARED_HEADERS_MAX = 8 };

/* A header of an answer; both texts are constant. */
struct prepared_header {
    const char *name, *value;
};

/* Prepares an answer with these headers, up to the first without a name. The text is constant, or
 * `owned`: malloc'ed, and the answer takes ownership. The caller gets a hold. Any thread; aborts
 * without memory. */
struct prepared *prepared_make(unsigned status,
                               const struct prepared_header headers[PREPARED_HEADERS_MAX],
                               const char *text, size_t length, bool owned);

/* prepared_make for status 200 with an owned text; the other two texts are constant. */
struct prepared *prepared_new(const char *content_type, const char *cache_control, char *text,
                              size_t length);

/* Adds a hold: the answer stays until every hold is released. Returns it. Any thread that has a
 * hold, or that keeps other threads from releasing the last one. */
struct prepared *prepared_hold(struct prepared *prepared);

/* Releases one hold; NULL is fine. Responses that libmicrohttpd is sending stay until sent. Any
 * thread. */
void prepared_release(struct prepared **prepared);

/* Approximate bytes of memory that the answer takes. */
size_t prepared_size(const struct prepared *prepared);

/* ---- for service/http/ only ---- */

/* The shared response, which libmicrohttpd locks by itself, with its status and the bytes of its
 * text; valid as long as the answer. */
struct MHD_Response *prepared_response(const struct prepared *prepared, unsigned *status_out,
                                       size_t *length_out);

/* An unshared response with the same content; the caller may add headers, and destroys it. It holds
 * the answer as long as libmicrohttpd sends it. */
struct MHD_Response *prepared_single(struct prepared *prepared);

#endif

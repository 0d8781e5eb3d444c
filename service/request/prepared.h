/* Prepared answers: each is made once, and sent as the answer to many requests. */
#ifndef SECKILL_SERVICE_REQUEST_PREPARED_H
#define SECKILL_SERVICE_REQUEST_PREPARED_H

#include <stddef.h>

struct MHD_Response;
struct prepared;

/* Prepares the answer 200 with `text`, which must be malloc'ed and belongs to the answer from now
 * on; `content_type` and `cache_control` are constant texts. The caller holds the answer. Any
 * thread; aborts without memory. */
struct prepared *prepared_new(const char *content_type, const char *cache_control, char *text,
                              size_t length);

enum { PREPARED_HEADERS_MAX = 8 };

/* A header of an answer: constant texts. */
struct prepared_header {
    const char *name, *value;
};

/* Prepares the answer `status` with a constant text and these headers, of which the first without a
 * name ends the list. The caller holds the answer. Any thread; aborts without memory. */
struct prepared *prepared_constant(unsigned status,
                                   const struct prepared_header headers[PREPARED_HEADERS_MAX],
                                   const char *text, size_t length);

/* Holds the answer once more: it stays until every hold is released. Returns it. Any thread that
 * has a hold, or that keeps another thread from releasing the last one. */
struct prepared *prepared_hold(struct prepared *prepared);

/* Releases one hold; NULL is fine. Responses that libmicrohttpd is sending stay until they are
 * sent. Any thread. */
void prepared_release(struct prepared **prepared);

/* Bytes of memory that the answer takes, about. */
size_t prepared_size(const struct prepared *prepared);

/* Bytes of its text. */
size_t prepared_length(const struct prepared *prepared);

/* ---- for service/http/ only ---- */

unsigned prepared_status(const struct prepared *prepared);

/* The shared response, which libmicrohttpd locks by itself; valid as long as the answer. */
struct MHD_Response *prepared_response(const struct prepared *prepared);

/* A response of the same content that no other request shares, for the caller to add headers to and
 * to destroy. It holds the answer as long as libmicrohttpd sends it. */
struct MHD_Response *prepared_single(struct prepared *prepared);

#endif

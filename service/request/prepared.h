/* Prepared answers: each is made once, and sent as the answer to many requests. */
#ifndef SECKILL_SERVICE_REQUEST_PREPARED_H
#define SECKILL_SERVICE_REQUEST_PREPARED_H

#include <stdbool.h>
#include <stddef.h>

struct MHD_Response;
struct prepared;

enum { PREPARED_HEADERS_MAX = 8 };

/* A header of an answer: constant texts. */
struct prepared_header {
    const char *name, *value;
};

/* Prepares the answer `status` with these headers, of which the first without a name ends the list.
 * The text is constant, or it is `owned`: malloc'ed, and the answer's from now on. The caller holds
 * the answer. Any thread; aborts without memory. */
struct prepared *prepared_make(unsigned status,
                               const struct prepared_header headers[PREPARED_HEADERS_MAX],
                               const char *text, size_t length, bool owned);

/* The same for the answer 200 with a text of its own; the other two are constant texts. */
struct prepared *prepared_new(const char *content_type, const char *cache_control, char *text,
                              size_t length);

/* Holds the answer once more: it stays until every hold is released. Returns it. Any thread that
 * has a hold, or that keeps another thread from releasing the last one. */
struct prepared *prepared_hold(struct prepared *prepared);

/* Releases one hold; NULL is fine. Responses that libmicrohttpd is sending stay until they are
 * sent. Any thread. */
void prepared_release(struct prepared **prepared);

/* Bytes of memory that the answer takes, about. */
size_t prepared_size(const struct prepared *prepared);

/* ---- for service/http/ only ---- */

/* The shared response, which libmicrohttpd locks by itself, with its status and the bytes of its
 * text; valid as long as the answer. */
struct MHD_Response *prepared_response(const struct prepared *prepared, unsigned *status_out,
                                       size_t *length_out);

/* A response of the same content that no other request shares, for the caller to add headers to and
 * to destroy. It holds the answer as long as libmicrohttpd sends it. */
struct MHD_Response *prepared_single(struct prepared *prepared);

#endif

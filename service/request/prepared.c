/* Prepared answers: each is made once and answers many requests. */
#include "service/request/prepared.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>

#include "base/memory.h"

/* The response owns the text, unless it is constant, because libmicrohttpd may release a response
 * after the request that it answers has ended. */
struct prepared {
    _Atomic size_t holds;
    struct MHD_Response *response;
    unsigned status;
    struct prepared_header headers[PREPARED_HEADERS_MAX];
    const char *text;
    size_t length;
};

enum { RESPONSE_SIZE = 512 }; /* approximate bytes of a response and its headers */

static struct MHD_Response *add_headers(const struct prepared *prepared,
                                        struct MHD_Response *response)
{
    if (!response)
        abort();
    for (size_t i = 0; i < PREPARED_HEADERS_MAX && prepared->headers[i].name; i++)
        if (MHD_add_response_header(response, prepared->headers[i].name,
                                    prepared->headers[i].value) != MHD_YES)
            abort();
    return response;
}

struct prepared *prepared_make(unsigned status,
                               const struct prepared_header headers[PREPARED_HEADERS_MAX],
                               const char *text, size_t length, bool owned)
{
    struct prepared *prepared = memory_must(calloc(1, sizeof *prepared));
    prepared->status = status;
    memcpy(prepared->headers, headers, sizeof prepared->headers);
    prepared->text = text;
    prepared->length = length;
    prepared->response =
        add_headers(prepared, MHD_create_response_from_buffer(length, (void *)(uintptr_t)text,
                                                              owned ? MHD_RESPMEM_MUST_FREE
                                                                    : MHD_RESPMEM_PERSISTENT));
    atomic_init(&prepared->holds, 1);
    return prepared;
}

struct prepared *prepared_new(const char *content_type, const char *cache_control, char *text,
                              size_t length)
{
    const struct prepared_header headers[PREPARED_HEADERS_MAX] = {
        {MHD_HTTP_HEADER_CONTENT_TYPE, content_type},
        {MHD_HTTP_HEADER_CACHE_CONTROL, cache_control},
    };
    return prepared_make(MHD_HTTP_OK, headers, text, length, true);
}

struct prepared *prepared_hold(struct prepared *prepared)
{
    size_t before = atomic_fetch_add_explicit(&prepared->holds, 1, memory_order_relaxed);
    assert(before > 0);
    return prepared;
}

void prepared_release(struct prepared **pointer)
{
    struct prepared *prepared = *pointer;
    if (!prepared)
        return;
    *pointer = NULL;
    size_t before = atomic_fetch_sub_explicit(&prepared->holds, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before > 1)
        return;
    MHD_destroy_response(prepared->response);
    free(prepared);
}

size_t prepared_size(const struct prepared *prepared)
{
    return sizeof *prepared + RESPONSE_SIZE + prepared->length;
}

struct MHD_Response *prepared_response(const struct prepared *prepared, unsigned *status_out,
                                       size_t *length_out)
{
    *status_out = prepared->status;
    *length_out = prepared->length;
    return prepared->response;
}

static void release(void *cls)
{
    struct prepared *prepared = cls;
    prepared_release(&prepared);
}

struct MHD_Response *prepared_single(struct prepared *prepared)
{
    return add_headers(prepared, MHD_create_response_from_buffer_with_free_callback_cls(
                                     prepared->length, (void *)(uintptr_t)prepared->text, release,
                                     prepared_hold(prepared)));
}

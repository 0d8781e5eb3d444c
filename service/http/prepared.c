/* Prepared answers: each is made once, and sent as the answer to many requests. */
#include "service/http/prepared.h"

#include <assert.h>
#include <microhttpd.h>
#include <stdatomic.h>
#include <stdlib.h>

/* The response owns the text, because libmicrohttpd may release a response after the request it
 * answers has ended. */
struct prepared {
    _Atomic size_t holds;
    struct MHD_Response *response;
    const char *content_type;
    const char *cache_control;
    char *text;
    size_t length;
};

enum { RESPONSE_SIZE = 512 }; /* of a response and its headers, about */

static struct MHD_Response *add_headers(const struct prepared *prepared,
                                        struct MHD_Response *response)
{
    if (!response ||
        MHD_add_response_header(response, MHD_HTTP_HEADER_CONTENT_TYPE, prepared->content_type) !=
            MHD_YES ||
        MHD_add_response_header(response, MHD_HTTP_HEADER_CACHE_CONTROL, prepared->cache_control) !=
            MHD_YES)
        abort();
    return response;
}

struct prepared *prepared_new(const char *content_type, const char *cache_control, char *text,
                              size_t length)
{
    struct prepared *prepared = calloc(1, sizeof *prepared);
    if (!prepared)
        abort();
    prepared->content_type = content_type;
    prepared->cache_control = cache_control;
    prepared->text = text;
    prepared->length = length;
    prepared->response =
        add_headers(prepared, MHD_create_response_from_buffer(length, text, MHD_RESPMEM_MUST_FREE));
    atomic_init(&prepared->holds, 1);
    return prepared;
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
    *pointer = NULL;
    if (!prepared)
        return;
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

size_t prepared_length(const struct prepared *prepared)
{
    return prepared->length;
}

struct MHD_Response *prepared_response(const struct prepared *prepared)
{
    return prepared->response;
}

static void release(void *cls)
{
    struct prepared *prepared = cls;
    prepared_release(&prepared);
}

struct MHD_Response *prepared_single(struct prepared *prepared)
{
    return add_headers(prepared,
                       MHD_create_response_from_buffer_with_free_callback_cls(
                           prepared->length, prepared->text, release, prepared_hold(prepared)));
}

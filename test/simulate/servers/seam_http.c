/* What service/request/prepared.c asks of libmicrohttpd, without it: a response is its text. */
#include "test/simulate/servers/seam_http.h"

#include <microhttpd.h>
#include <stdlib.h>

/* Since 1.0, libmicrohttpd promises not to change the text. */
#if MHD_VERSION < 0x01000000
typedef void response_text;
#else
typedef const void response_text;
#endif

struct MHD_Response {
    const char *text;
    void (*release)(void *context);
    void *context;
};

const char *seam_http_text(const struct MHD_Response *response)
{
    return response->text;
}

static struct MHD_Response *make(const char *text)
{
    struct MHD_Response *response = calloc(1, sizeof *response);
    response->text = text;
    return response;
}

struct MHD_Response *MHD_create_response_from_buffer(size_t size, void *buffer,
                                                     enum MHD_ResponseMemoryMode mode)
{
    (void)size, (void)mode;
    return make(buffer);
}

struct MHD_Response *MHD_create_response_from_buffer_with_free_callback_cls(
    size_t size, response_text *buffer, MHD_ContentReaderFreeCallback release, void *context)
{
    (void)size;
    struct MHD_Response *response = make(buffer);
    response->release = release;
    response->context = context;
    return response;
}

enum MHD_Result MHD_add_response_header(struct MHD_Response *response, const char *header,
                                        const char *content)
{
    (void)response, (void)header, (void)content;
    return MHD_YES;
}

void MHD_destroy_response(struct MHD_Response *response)
{
    if (response->release)
        response->release(response->context);
}

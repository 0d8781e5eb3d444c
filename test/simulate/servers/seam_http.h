/* Parts of the seam of libmicrohttpd for the simulation alone. */
#ifndef SIMULATE_SEAM_HTTP_H
#define SIMULATE_SEAM_HTTP_H

struct MHD_Response;

/* The text of a response. */
const char *seam_http_text(const struct MHD_Response *response);

#endif

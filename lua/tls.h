/* Speaks TLS on a connected socket, which stays the caller's. */
#ifndef LUA_TLS_H
#define LUA_TLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct tls;
struct url;

enum { TLS_ERROR_SIZE = 256 };

/* True when the files that the URL names can be read and are a certificate and its key, without a
 * passphrase. False with the file and the reason in `error_out`. Any thread. */
bool tls_check_files(const struct url *url, char *error_out, size_t error_size);

/* Makes the handshake until `until_ms` (clock_now_ms) and checks that the server's certificate is
 * for `host`, a name or an address, and signed by an authority of the URL's `ca`, or of the
 * system's. Reads the URL's files each time: a certificate may be replaced while the program runs.
 * NULL with the reason in `error`, into which the functions below write as well: it outlives the
 * connection. Belongs to one thread at a time. */
struct tls *tls_open(int fd, const struct url *url, const char *host, int64_t until_ms,
                     char error[TLS_ERROR_SIZE]);

/* Frees it without telling the server, and sets the caller's pointer to NULL: a child of a fork
 * must not speak on its parent's connection. */
void tls_close(struct tls **tls);

/* Sends all bytes until `until_ms`; `more`: further bytes follow soon. False: the connection is
 * lost. Raises no signal. */
bool tls_send(struct tls *tls, const char *bytes, size_t count, bool more, int64_t until_ms);

/* Sends as many bytes as the socket takes at once. Returns their number, maybe 0; -1: the
 * connection is lost. The caller sends the rest, the same bytes, before any other. */
ptrdiff_t tls_send_some(struct tls *tls, const char *bytes, size_t count, bool more);

/* Reads up to `size` bytes, waiting for them until `until_ms` (0: not at all). Returns their
 * number; 0: no byte came in time; -1: the connection is lost. */
ptrdiff_t tls_receive(struct tls *tls, char *bytes, size_t size, int64_t until_ms);

/* True when decrypted bytes wait, which poll(2) does not know of. */
bool tls_pending(const struct tls *tls);

#endif

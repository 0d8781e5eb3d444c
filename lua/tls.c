/* Speaks TLS on a connected socket.
 *
 * why_own_bio: OpenSSL's own writes to the socket raise SIGPIPE when the server has gone, and wait
 * as the socket waits. Ours never does either: every wait is a poll(2) with a limit. */
#include "lua/tls.h"

#include <errno.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/clock.h"
#include "base/url.h"

/* The first record of a TLS server is one of these. */
enum { RECORD_ALERT = 0x15, RECORD_HANDSHAKE = 0x16 };

struct tls {
    SSL *ssl;
    int fd;
    bool more;    /* further bytes follow those that are being sent */
    bool heard;   /* the server has sent something */
    bool foreign; /* and it began with no record of TLS */
    char *error;  /* the caller's, of TLS_ERROR_SIZE */
};

/* ---- the socket, as OpenSSL uses it ---- */

static int bio_write(BIO *bio, const char *bytes, int count)
{
    const struct tls *tls = BIO_get_data(bio);
    int flags = MSG_NOSIGNAL | MSG_DONTWAIT | (tls->more ? MSG_MORE : 0);
    ssize_t sent = send(tls->fd, bytes, (size_t)count, flags);
    BIO_clear_retry_flags(bio);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_write(bio);
    return (int)sent;
}

static int bio_read(BIO *bio, char *bytes, int size)
{
    struct tls *tls = BIO_get_data(bio);
    ssize_t count = recv(tls->fd, bytes, (size_t)size, MSG_DONTWAIT);
    BIO_clear_retry_flags(bio);
    if (count < 0 && (errno == EAGAIN || errno == EINTR))
        BIO_set_retry_read(bio);
    if (count > 0 && !tls->heard) {
        tls->heard = true;
        tls->foreign = bytes[0] != RECORD_HANDSHAKE && bytes[0] != RECORD_ALERT;
    }
    return (int)count;
}

/* Has nothing to flush, because nothing is kept back. */
static long bio_control(BIO *bio, int command, long number, void *pointer)
{
    (void)bio, (void)number, (void)pointer;
    return command == BIO_CTRL_FLUSH;
}

static BIO_METHOD *method;

static void make_method(void)
{
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket");
    if (method) {
        BIO_meth_set_write(method, bio_write);
        BIO_meth_set_read(method, bio_read);
        BIO_meth_set_ctrl(method, bio_control);
    }
}

static BIO *new_bio(struct tls *tls)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, make_method);
    BIO *bio = method ? BIO_new(method) : NULL;
    if (bio) {
        BIO_set_data(bio, tls);
        BIO_set_init(bio, 1);
    }
    return bio;
}

/* ---- errors ---- */

/* Call before each operation of OpenSSL: only an empty queue tells its error from an earlier one,
 * and only errno tells the end of the connection from an error of the system. */
static void prepare(void)
{
    ERR_clear_error();
    errno = 0;
}

static bool keep_error(struct tls *tls, const char *text)
{
    snprintf(tls->error, TLS_ERROR_SIZE, "TLS: %s", text);
    return false;
}

/* Keeps the reason why the last operation failed for good; `code` comes from SSL_get_error. */
static void keep_failure(struct tls *tls, int code)
{
    unsigned long error = ERR_peek_last_error();
    long verified = SSL_get_verify_result(tls->ssl);
    const char *reason = error ? ERR_reason_error_string(error) : NULL;
    bool closed = code == SSL_ERROR_ZERO_RETURN ||
                  (code == SSL_ERROR_SYSCALL && (errno == 0 || errno == ECONNRESET));
#ifdef SSL_R_UNEXPECTED_EOF_WHILE_READING
    closed |= ERR_GET_REASON(error) == SSL_R_UNEXPECTED_EOF_WHILE_READING;
#endif
    if (closed)
        snprintf(tls->error, TLS_ERROR_SIZE, "Server closed the connection");
    else if (verified != X509_V_OK)
        snprintf(tls->error, TLS_ERROR_SIZE, "TLS: the server's certificate: %s",
                 X509_verify_cert_error_string(verified));
    else
        keep_error(tls, reason ? reason : errno ? strerror(errno) : "it failed");
}

/* ---- waits ---- */

enum step { STEP_DONE, STEP_AGAIN, STEP_LATE, STEP_FAILED };

/* Returns the outcome of an operation of OpenSSL, after the wait that it asks for. */
static enum step next_step(struct tls *tls, int result, int64_t until_ms)
{
    int code = SSL_get_error(tls->ssl, result);
    if (result > 0)
        return STEP_DONE;
    if (code != SSL_ERROR_WANT_READ && code != SSL_ERROR_WANT_WRITE) {
        keep_failure(tls, code);
        return STEP_FAILED;
    }
    struct pollfd poller = {.fd = tls->fd,
                            .events = code == SSL_ERROR_WANT_READ ? POLLIN : POLLOUT};
    int64_t left_ms = until_ms > 0 ? until_ms - clock_now_ms() : 0;
    if (left_ms <= 0 || poll(&poller, 1, left_ms < INT_MAX ? (int)left_ms : INT_MAX) == 0)
        return STEP_LATE;
    return STEP_AGAIN;
}

/* ---- opening ---- */

/* Says what is wrong with a file; a path that is too long loses its end. */
static bool bad_file(const char *option, const char *path, const char *wrong, char *error_out,
                     size_t error_size)
{
    FILE *file = fopen(path, "re");
    const char *why = file ? wrong : strerror(errno);
    if (file)
        fclose(file);
    snprintf(error_out, error_size, "the file of %s, %.140s: %s", option, path, why);
    return false;
}

/* Reads the files that the URL names. False with what is wrong in `error_out`. */
static bool read_files(SSL_CTX *context, const struct url *url, char *error_out, size_t error_size)
{
    if (url->ca[0] == '\0' && SSL_CTX_set_default_verify_paths(context) != 1) {
        snprintf(error_out, error_size, "the system's authorities cannot be read");
        return false;
    }
    if (url->ca[0] != '\0' && SSL_CTX_load_verify_locations(context, url->ca, NULL) != 1)
        return bad_file("ca", url->ca, "it has no certificate of PEM", error_out, error_size);
    if (url->cert[0] == '\0')
        return true;
    if (SSL_CTX_use_certificate_chain_file(context, url->cert) != 1)
        return bad_file("cert", url->cert, "it has no certificate of PEM", error_out, error_size);
    if (SSL_CTX_use_PrivateKey_file(context, url->key, SSL_FILETYPE_PEM) != 1)
        return bad_file("key", url->key, "it has no key of PEM without a passphrase that is cert's",
                        error_out, error_size);
    return true;
}

/* Refuses a passphrase, which OpenSSL would otherwise ask for at the terminal, and wait. */
static int no_passphrase(char *text, int size, int writing, void *context)
{
    (void)text, (void)size, (void)writing, (void)context;
    return -1;
}

static SSL_CTX *new_context(const struct url *url, char *error_out, size_t error_size)
{
    SSL_CTX *context = SSL_CTX_new(TLS_client_method());
    if (!context) {
        snprintf(error_out, error_size, "out of memory");
        return NULL;
    }
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER, NULL);
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_default_passwd_cb(context, no_passphrase);
    if (!read_files(context, url, error_out, error_size)) {
        SSL_CTX_free(context);
        context = NULL;
    }
    return context;
}

bool tls_check_files(const struct url *url, char *error_out, size_t error_size)
{
    prepare();
    SSL_CTX *context = new_context(url, error_out, error_size);
    SSL_CTX_free(context);
    return context != NULL;
}

/* Compares an address with the certificate's addresses; it is no name to ask the server for. */
static bool expect_host(SSL *ssl, const char *host)
{
    if (X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), host) == 1)
        return true;
    return SSL_set1_host(ssl, host) == 1 && SSL_set_tlsext_host_name(ssl, host) == 1;
}

static bool make_ssl(struct tls *tls, const struct url *url, const char *host)
{
    char wrong[TLS_ERROR_SIZE - 8];
    SSL_CTX *context = new_context(url, wrong, sizeof wrong);
    if (!context)
        return keep_error(tls, wrong);
    tls->ssl = SSL_new(context);
    SSL_CTX_free(context); /* the SSL holds it */
    BIO *bio = tls->ssl ? new_bio(tls) : NULL;
    if (!bio)
        return keep_error(tls, "out of memory");
    SSL_set_bio(tls->ssl, bio, bio);
    SSL_set_mode(tls->ssl, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    return expect_host(tls->ssl, host) || keep_error(tls, "the host cannot be a certificate's");
}

static bool shake_hands(struct tls *tls, int64_t until_ms)
{
    enum step step = STEP_AGAIN;
    while (step == STEP_AGAIN) {
        prepare();
        step = next_step(tls, SSL_connect(tls->ssl), until_ms);
    }
    if (tls->foreign)
        keep_error(tls, "the server speaks no TLS at this port: the URL begins with redis, or "
                        "names another port");
    else if (step == STEP_LATE && tls->heard)
        keep_error(tls, "no handshake in time");
    else if (step == STEP_LATE)
        keep_error(tls, "no answer in time: if the port speaks no TLS, the URL begins with redis");
    else if (step == STEP_FAILED && !tls->heard)
        keep_error(tls, "the server closed the connection: if the port speaks no TLS, the URL "
                        "begins with redis");
    return step == STEP_DONE;
}

struct tls *tls_open(int fd, const struct url *url, const char *host, int64_t until_ms,
                     char error[TLS_ERROR_SIZE])
{
    struct tls *tls = calloc(1, sizeof *tls);
    if (!tls) {
        snprintf(error, TLS_ERROR_SIZE, "out of memory");
        return NULL;
    }
    tls->fd = fd;
    tls->error = error;
    prepare();
    if (!make_ssl(tls, url, host) || !shake_hands(tls, until_ms))
        tls_close(&tls);
    return tls;
}

void tls_close(struct tls **tls)
{
    if (*tls)
        SSL_free((*tls)->ssl);
    free(*tls);
    *tls = NULL;
}

/* ---- bytes ---- */

bool tls_send(struct tls *tls, const char *bytes, size_t count, bool more, int64_t until_ms)
{
    size_t sent = 0;
    tls->more = more;
    while (sent < count) {
        size_t done = 0;
        prepare();
        enum step step =
            next_step(tls, SSL_write_ex(tls->ssl, bytes + sent, count - sent, &done), until_ms);
        if (step == STEP_LATE)
            keep_error(tls, "what is to be sent is not taken");
        if (step == STEP_LATE || step == STEP_FAILED)
            return false;
        sent += step == STEP_DONE ? done : 0;
    }
    return true;
}

ptrdiff_t tls_send_some(struct tls *tls, const char *bytes, size_t count, bool more)
{
    size_t done = 0;
    tls->more = more;
    prepare();
    enum step step = next_step(tls, SSL_write_ex(tls->ssl, bytes, count, &done), 0);
    return step == STEP_FAILED ? -1 : step == STEP_DONE ? (ptrdiff_t)done : 0;
}

ptrdiff_t tls_receive(struct tls *tls, char *bytes, size_t size, int64_t until_ms)
{
    size_t count = 0;
    enum step step = STEP_AGAIN;
    tls->more = false;
    while (step == STEP_AGAIN) {
        prepare();
        step = next_step(tls, SSL_read_ex(tls->ssl, bytes, size, &count), until_ms);
    }
    return step == STEP_DONE ? (ptrdiff_t)count : step == STEP_LATE ? 0 : -1;
}

bool tls_pending(const struct tls *tls)
{
    return SSL_pending(tls->ssl) > 0;
}

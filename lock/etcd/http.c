/* Sends requests to an etcd cluster by its JSON gateway, and reads the answers. */
#include "lock/etcd/http.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/resolve.h"
#include "base/url.h"
#include "lock/text.h"

enum {
    IDLE_MAX = 64,
    ANSWER_MAX = 1 << 20, /* bytes of an answer; a longer one is none */
    ANSWER_KEPT_MAX = 1 << 14,
    LOGIN_MAX = 4096, /* bytes of a login as JSON, with its NUL */
    TOKEN_MAX = 1024, /* bytes of a login's token, with its NUL */
    PATH_SIZE = 64,
    ADDRESSES_SIZE = URL_PLACE_SIZE + RESOLVE_ADDRESSES_MAX * RESOLVE_ADDRESS_SIZE,
    ALIVE_AFTER_S = 10, /* without a packet TCP asks whether the server's host is still there */
    ALIVE_EVERY_S = 5,
};

/* The codes of gRPC that etcd gives before it begins a request, or when applying it changes
 * nothing. All others, such as "unavailable" after a time-out of its own, leave that open. */
enum {
    CODE_INVALID = 3,
    CODE_DENIED = 7,
    CODE_EXHAUSTED = 8,
    CODE_PRECONDITION = 9,
    CODE_OUT_OF_RANGE = 11,
    CODE_UNIMPLEMENTED = 12,
    CODE_UNAUTHENTICATED = 16,
};

/* A connection, lent to one thread at a time. */
struct connection {
    struct etcd_transfer transfer;
    char *text; /* the answer */
    size_t length, size;
};

struct socket {
    int fd;
    ino_t inode;
};

struct etcd {
    struct url url;
    char places[URL_SERVERS_MAX][URL_PLACE_SIZE];
    int timeout_ms;
    _Atomic size_t server; /* the one that answered last */
    struct process_guard guard;
    pthread_mutex_t mutex; /* guards all below */
    struct connection *idle[IDLE_MAX];
    size_t idle_count;
    struct socket *sockets; /* all that are open, for a child of fork */
    size_t socket_count, socket_room;
    /* What the servers' names led to, as libcurl takes it; empty: the host is an address. */
    char addresses[URL_SERVERS_MAX][ADDRESSES_SIZE];
    char token[TOKEN_MAX]; /* empty: not logged in */
    int login;             /* counts the tokens */
};

/* ---- sockets ---- */

/* why_inodes: libcurl does not call back for each socket that it closes, as when a transfer ends
 * while it connects. So a listed number may belong to another file by now, and the inode tells. */
static ino_t inode_of(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISSOCK(status.st_mode) ? status.st_ino : 0;
}

/* Returns the place of a socket in the list, or its end. The mutex is held. */
static size_t find_socket(const struct etcd *etcd, int fd)
{
    size_t i = 0;
    while (i < etcd->socket_count && etcd->sockets[i].fd != fd)
        i++;
    return i;
}

/* Lists a socket, in the place of a former one of its number. The mutex is held. */
static bool list_socket(struct etcd *etcd, int fd)
{
    size_t place = find_socket(etcd, fd), room = etcd->socket_room * 2 + 8;
    if (place == etcd->socket_room) {
        struct socket *longer = realloc(etcd->sockets, room * sizeof *longer);
        if (!longer)
            return false;
        etcd->sockets = longer;
        etcd->socket_room = room;
    }
    etcd->sockets[place] = (struct socket){fd, inode_of(fd)};
    if (place == etcd->socket_count)
        etcd->socket_count++;
    return true;
}

/* why_under_the_mutex: a fork waits for it, so a socket is listed in every child that has it. */
static curl_socket_t socket_open(void *context, curlsocktype purpose, struct curl_sockaddr *to)
{
    struct etcd_transfer *transfer = context;
    struct etcd *etcd = transfer->etcd;
    (void)purpose;
    pthread_mutex_lock(&etcd->mutex);
    int fd = socket(to->family, to->socktype | SOCK_CLOEXEC, to->protocol);
    if (fd >= 0 && !list_socket(etcd, fd)) {
        close(fd);
        fd = -1;
    }
    pthread_mutex_unlock(&etcd->mutex);
    transfer->socket = fd;
    transfer->opened = true;
    return fd < 0 ? CURL_SOCKET_BAD : fd;
}

static int socket_close(void *context, curl_socket_t fd)
{
    struct etcd *etcd = context;
    pthread_mutex_lock(&etcd->mutex);
    size_t place = find_socket(etcd, fd);
    if (place < etcd->socket_count)
        etcd->sockets[place] = etcd->sockets[--etcd->socket_count];
    int closed = close(fd);
    pthread_mutex_unlock(&etcd->mutex);
    return closed;
}

/* Another transfer may have the number by now: then the answer is wrong on the safe side. */
static bool socket_is_open(struct etcd *etcd, int fd)
{
    pthread_mutex_lock(&etcd->mutex);
    bool open = find_socket(etcd, fd) < etcd->socket_count;
    pthread_mutex_unlock(&etcd->mutex);
    return open;
}

/* Only the child runs this, where no other thread exists; the fork has waited for the list to be
 * whole. */
void etcd_forget(struct etcd *etcd)
{
    for (size_t i = 0; i < etcd->socket_count; i++)
        if (etcd->sockets[i].inode != 0 && inode_of(etcd->sockets[i].fd) == etcd->sockets[i].inode)
            close(etcd->sockets[i].fd);
}

/* ---- transfers ---- */

static void set_tls(CURL *easy, const struct url *url)
{
    if (url->ca[0] != '\0')
        curl_easy_setopt(easy, CURLOPT_CAINFO, url->ca);
    if (url->cert[0] != '\0') {
        curl_easy_setopt(easy, CURLOPT_SSLCERT, url->cert);
        curl_easy_setopt(easy, CURLOPT_SSLKEY, url->key);
    }
}

static void set_options(struct etcd_transfer *transfer)
{
    CURL *easy = transfer->easy;
    curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
    curl_easy_setopt(easy, CURLOPT_PROXY, "");
    curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
    curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, (long)transfer->etcd->timeout_ms);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, (long)ALIVE_AFTER_S);
    curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, (long)ALIVE_EVERY_S);
    curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, transfer->error);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, socket_open);
    curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, transfer);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, socket_close);
    curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, transfer->etcd);
    set_tls(easy, &transfer->etcd->url);
}

static bool transfer_open(struct etcd *etcd, size_t server, struct etcd_transfer *transfer)
{
    *transfer = (struct etcd_transfer){.etcd = etcd, .server = server, .socket = -1, .login = -1};
    transfer->easy = curl_easy_init();
    if (transfer->easy)
        set_options(transfer);
    return transfer->easy != NULL;
}

bool etcd_transfer_begin(struct etcd *etcd, struct etcd_transfer *transfer)
{
    return transfer_open(etcd, etcd->server, transfer);
}

void etcd_transfer_end(struct etcd_transfer *transfer)
{
    if (transfer->easy)
        curl_easy_cleanup(transfer->easy);
    curl_slist_free_all(transfer->headers);
    curl_slist_free_all(transfer->addresses);
    transfer->easy = NULL;
    transfer->headers = transfer->addresses = NULL;
}

/* False: no memory. */
static bool add_header(struct curl_slist **headers, const char *line)
{
    struct curl_slist *longer = curl_slist_append(*headers, line);
    if (longer)
        *headers = longer;
    return longer != NULL;
}

/* why_not_libcurl: its look-ups run in threads of its own, and a fork at that moment leaves the
 * child with a mutex of the resolver that nobody will ever unlock. */
static bool set_addresses(struct etcd_transfer *transfer)
{
    struct etcd *etcd = transfer->etcd;
    char addresses[ADDRESSES_SIZE];
    pthread_mutex_lock(&etcd->mutex);
    memcpy(addresses, etcd->addresses[transfer->server], sizeof addresses);
    pthread_mutex_unlock(&etcd->mutex);
    if (addresses[0] == '\0' ||
        (transfer->addresses && strcmp(transfer->addresses->data, addresses) == 0))
        return true;
    struct curl_slist *list = curl_slist_append(NULL, addresses);
    curl_easy_setopt(transfer->easy, CURLOPT_RESOLVE, list);
    curl_slist_free_all(transfer->addresses);
    transfer->addresses = list;
    return list != NULL;
}

/* Makes the headers anew after each login. */
static bool set_headers(struct etcd_transfer *transfer)
{
    struct etcd *etcd = transfer->etcd;
    char authorization[TOKEN_MAX + 32];
    pthread_mutex_lock(&etcd->mutex);
    int login = etcd->login;
    bool logged_in = etcd->token[0] != '\0';
    snprintf(authorization, sizeof authorization, "Authorization: %s", etcd->token);
    pthread_mutex_unlock(&etcd->mutex);
    if (transfer->login == login)
        return true;
    struct curl_slist *headers = NULL;
    bool made = add_header(&headers, "Content-Type: application/json") &&
                add_header(&headers, "Expect:") && /* removes the header */
                (!logged_in || add_header(&headers, authorization));
    explicit_bzero(authorization, sizeof authorization);
    curl_easy_setopt(transfer->easy, CURLOPT_HTTPHEADER, headers);
    curl_slist_free_all(transfer->headers);
    transfer->headers = headers;
    transfer->login = made ? login : -1;
    return made;
}

bool etcd_transfer_set(struct etcd_transfer *transfer, const char *path, const char *body)
{
    const struct etcd *etcd = transfer->etcd;
    char url[URL_PLACE_SIZE + PATH_SIZE];
    int length = snprintf(url, sizeof url, "%s://%s%s", etcd->url.tls ? "https" : "http",
                          etcd->places[transfer->server], path);
    assert(length < (int)sizeof url);
    return set_headers(transfer) && set_addresses(transfer) &&
           curl_easy_setopt(transfer->easy, CURLOPT_URL, url) == CURLE_OK &&
           curl_easy_setopt(transfer->easy, CURLOPT_POSTFIELDSIZE_LARGE,
                            (curl_off_t)strlen(body)) == CURLE_OK &&
           curl_easy_setopt(transfer->easy, CURLOPT_POSTFIELDS, body) == CURLE_OK;
}

/* ---- connections ---- */

static size_t take_text(char *data, size_t size, size_t count, void *context)
{
    struct connection *connection = context;
    size_t more = size * count, need = connection->length + more + 1;
    if (need > ANSWER_MAX)
        return 0;
    if (need > connection->size) {
        size_t room = need < ANSWER_KEPT_MAX ? ANSWER_KEPT_MAX : need * 2;
        char *longer = realloc(connection->text, room);
        if (!longer)
            return 0;
        connection->text = longer;
        connection->size = room;
    }
    memcpy(connection->text + connection->length, data, more);
    connection->length += more;
    return more;
}

static void connection_free(struct connection *connection)
{
    etcd_transfer_end(&connection->transfer);
    free(connection->text);
    free(connection);
}

/* NULL: no memory. */
static struct connection *connection_new(struct etcd *etcd, size_t server)
{
    struct connection *connection = calloc(1, sizeof *connection);
    if (!connection)
        return NULL;
    if (!transfer_open(etcd, server, &connection->transfer)) {
        free(connection);
        return NULL;
    }
    curl_easy_setopt(connection->transfer.easy, CURLOPT_WRITEFUNCTION, take_text);
    curl_easy_setopt(connection->transfer.easy, CURLOPT_WRITEDATA, connection);
    return connection;
}

/* Lends the connection given back last: the server is the least likely to have closed that one. */
static struct connection *connection_take(struct etcd *etcd, size_t server)
{
    struct connection *found = NULL;
    pthread_mutex_lock(&etcd->mutex);
    assert(etcd->idle_count <= IDLE_MAX);
    size_t i = etcd->idle_count;
    while (i > 0 && etcd->idle[i - 1]->transfer.server != server)
        i--;
    if (i > 0) {
        found = etcd->idle[i - 1];
        etcd->idle_count--;
        memmove(&etcd->idle[i - 1], &etcd->idle[i], (etcd->idle_count - (i - 1)) * sizeof found);
    }
    pthread_mutex_unlock(&etcd->mutex);
    return found ? found : connection_new(etcd, server);
}

static void connection_give(struct etcd *etcd, struct connection *connection)
{
    if (connection->size > ANSWER_KEPT_MAX) {
        free(connection->text);
        connection->text = NULL;
        connection->size = 0;
    }
    pthread_mutex_lock(&etcd->mutex);
    bool kept = etcd->idle_count < IDLE_MAX;
    if (kept)
        etcd->idle[etcd->idle_count++] = connection;
    pthread_mutex_unlock(&etcd->mutex);
    if (!kept)
        connection_free(connection);
}

/* Looks the server's name up before it is connected to. False: no address is found. */
static bool find_addresses(struct connection *connection, int64_t until_ms)
{
    struct etcd *etcd = connection->transfer.etcd;
    size_t server = connection->transfer.server;
    const char *host = etcd->url.servers[server].host;
    int64_t left_ms = until_ms - clock_now_ms();
    struct resolved found;
    char addresses[ADDRESSES_SIZE];
    const char *wrong = resolve_host(host, left_ms > 0 ? (int)left_ms : 1, &found);
    if (wrong) {
        snprintf(connection->transfer.error, CURL_ERROR_SIZE, "%s", wrong);
        return false;
    }
    if (strcmp(found.addresses[0], host) == 0)
        return true;
    size_t used = (size_t)snprintf(addresses, sizeof addresses, "%s", etcd->places[server]);
    for (size_t i = 0; i < found.count; i++)
        used += (size_t)snprintf(addresses + used, sizeof addresses - used, "%c%s",
                                 i == 0 ? ':' : ',', found.addresses[i]);
    assert(used < sizeof addresses);
    pthread_mutex_lock(&etcd->mutex);
    memcpy(etcd->addresses[server], addresses, sizeof addresses);
    pthread_mutex_unlock(&etcd->mutex);
    return true;
}

/* ---- one sending ---- */

/* What became of one sending. */
enum sending {
    NOT_SENT, /* the server was not reached */
    UNANSWERED,
    REFUSED,
    ANSWERED,
};

static void set_reason(const struct etcd *etcd, size_t server, const char *reason)
{
    char text[160];
    size_t length = strnlen(reason, sizeof text - 1);
    for (size_t i = 0; i < length; i++)
        text[i] = reason[i] >= ' ' && reason[i] <= '~' ? reason[i] : ' ';
    text[length] = '\0';
    lock_set_error("etcd %s: %s", etcd->places[server], text);
}

/* A refusal tells its code; what else comes with an error status tells nothing. */
static enum sending take_refusal(const struct etcd *etcd, size_t server, long status,
                                 struct etcd_answer *answer)
{
    const char *message = json_string_value(json_object_get(answer->json, "message"));
    if (!message) /* etcd 3.4 tells it under both names, 3.5 under the first alone */
        message = json_string_value(json_object_get(answer->json, "error"));
    char reason[64];
    int code = (int)etcd_number(answer->json, "code");
    snprintf(reason, sizeof reason, "HTTP status %ld", status);
    set_reason(etcd, server, message ? message : reason);
    switch (code) {
    case CODE_INVALID: /* as a login from before a change of users: then a new one is needed */
        if (message && strstr(message, "auth"))
            code = CODE_UNAUTHENTICATED;
        break;
    case ETCD_NOT_FOUND:
    case CODE_DENIED:
    case CODE_EXHAUSTED:
    case CODE_PRECONDITION:
    case CODE_OUT_OF_RANGE:
    case CODE_UNIMPLEMENTED:
    case CODE_UNAUTHENTICATED:
        break;
    default:
        return status >= 400 && status < 500 && code == 0 ? REFUSED : UNANSWERED;
    }
    answer->code = code;
    return REFUSED;
}

static enum sending take_answer(struct connection *connection, CURLcode result,
                                struct etcd_answer *answer)
{
    const struct etcd_transfer *transfer = &connection->transfer;
    long request_size = 0, status = 0;
    curl_easy_getinfo(transfer->easy, CURLINFO_REQUEST_SIZE, &request_size);
    curl_easy_getinfo(transfer->easy, CURLINFO_RESPONSE_CODE, &status);
    if (result != CURLE_OK) {
        set_reason(transfer->etcd, transfer->server,
                   transfer->error[0] ? transfer->error : curl_easy_strerror(result));
        return request_size == 0 ? NOT_SENT : UNANSWERED;
    }
    json_error_t error;
    answer->json =
        json_loadb(connection->text ? connection->text : "", connection->length, 0, &error);
    if (status == 200 && json_is_object(answer->json))
        return ANSWERED;
    enum sending sending = UNANSWERED;
    if (status == 200)
        set_reason(transfer->etcd, transfer->server, "the answer is not JSON");
    else
        sending = take_refusal(transfer->etcd, transfer->server, status, answer);
    json_decref(answer->json);
    answer->json = NULL;
    return sending;
}

/* why_twice: when a kept connection turns out to be closed, libcurl sends the request once more
 * over a new one, and does not tell. The first may have been carried out, or still arrive. */
static enum sending send_once(struct etcd *etcd, size_t server, const char *path, const char *body,
                              int64_t until_ms, struct etcd_answer *answer)
{
    struct connection *connection = connection_take(etcd, server);
    if (!connection) {
        lock_set_error("out of memory");
        return NOT_SENT;
    }
    struct etcd_transfer *transfer = &connection->transfer;
    bool kept = transfer->socket >= 0 && socket_is_open(etcd, transfer->socket);
    transfer->opened = false;
    transfer->error[0] = '\0';
    connection->length = 0;
    enum sending sending = NOT_SENT;
    if (!kept && !find_addresses(connection, until_ms))
        set_reason(etcd, server, transfer->error);
    else if (!etcd_transfer_set(transfer, path, body))
        lock_set_error("out of memory");
    else {
        int64_t left_ms = until_ms - clock_now_ms();
        curl_easy_setopt(transfer->easy, CURLOPT_TIMEOUT_MS, left_ms > 0 ? (long)left_ms : 1L);
        sending = take_answer(connection, curl_easy_perform(transfer->easy), answer);
    }
    if (kept && transfer->opened)
        answer->in_doubt = true;
    connection_give(etcd, connection);
    return sending;
}

/* ---- logging in ---- */

static void set_token(struct etcd *etcd, const char *token)
{
    pthread_mutex_lock(&etcd->mutex);
    strcpy(etcd->token, token);
    etcd->login++;
    pthread_mutex_unlock(&etcd->mutex);
}

static enum sending log_in(struct etcd *etcd, size_t server, int64_t until_ms)
{
    struct etcd_answer answer = {.json = NULL};
    json_t *login = json_pack("{s:s,s:s}", "name", etcd->url.user, "password", etcd->url.password);
    char body[LOGIN_MAX];
    size_t size = login ? json_dumpb(login, body, sizeof body - 1, JSON_COMPACT) : 0;
    json_decref(login);
    if (size == 0 || size >= sizeof body) {
        lock_set_error("out of memory, or the user or the password is not UTF-8");
        return NOT_SENT;
    }
    body[size] = '\0';
    enum sending sending =
        send_once(etcd, server, "/v3/auth/authenticate", body, until_ms, &answer);
    explicit_bzero(body, sizeof body);
    const char *token = json_string_value(json_object_get(answer.json, "token"));
    if (sending == ANSWERED && (!token || strlen(token) >= TOKEN_MAX || strpbrk(token, "\r\n"))) {
        set_reason(etcd, server, "the login's answer has no token");
        sending = NOT_SENT;
    }
    if (sending == ANSWERED)
        set_token(etcd, token);
    etcd_answer_free(&answer);
    return sending == UNANSWERED ? NOT_SENT : sending; /* nothing was asked for yet */
}

static bool is_logged_in(struct etcd *etcd)
{
    pthread_mutex_lock(&etcd->mutex);
    bool logged_in = etcd->token[0] != '\0';
    pthread_mutex_unlock(&etcd->mutex);
    return logged_in || etcd->url.user[0] == '\0';
}

/* Sends a request by a login that is valid: tokens expire after some minutes without a request. */
static enum sending send_logged_in(struct etcd *etcd, size_t server, const char *path,
                                   const char *body, int64_t until_ms, struct etcd_answer *answer)
{
    enum sending sending = is_logged_in(etcd) ? ANSWERED : log_in(etcd, server, until_ms);
    if (sending != ANSWERED)
        return sending;
    sending = send_once(etcd, server, path, body, until_ms, answer);
    if (sending != REFUSED || answer->code != CODE_UNAUTHENTICATED || etcd->url.user[0] == '\0')
        return sending;
    answer->code = 0;
    set_token(etcd, ""); /* else the server refuses the login as well */
    sending = log_in(etcd, server, until_ms);
    return sending == ANSWERED ? send_once(etcd, server, path, body, until_ms, answer) : sending;
}

/* ---- calls ---- */

/* why_shares: a server that is cut off must not take the time of the others, so each try but the
 * last has an equal share of what is left. */
enum seclock_result etcd_call(struct etcd *etcd, const char *path, const char *body, int wait_ms,
                              struct etcd_answer *answer_out)
{
    const size_t servers = etcd->url.server_count, first = etcd->server;
    int64_t until_ms = clock_now_ms() + wait_ms;
    bool doubt = false;
    assert(wait_ms > 0 && first < servers);
    *answer_out = (struct etcd_answer){.json = NULL};
    for (size_t i = 0, sendings = 0; i <= servers && sendings <= servers; i++) {
        size_t server = (first + i) % servers;
        int64_t left_ms = until_ms - clock_now_ms();
        if (i > 0 && left_ms <= 0)
            break;
        int64_t share_ms = i + 1 < servers ? left_ms / (int64_t)(servers - i) : left_ms;
        enum sending sending =
            send_logged_in(etcd, server, path, body, until_ms - left_ms + share_ms, answer_out);
        sendings += answer_out->in_doubt && !doubt ? 2 : 1;
        doubt = doubt || answer_out->in_doubt || sending == UNANSWERED;
        answer_out->in_doubt = doubt;
        if (sending == ANSWERED || sending == REFUSED) {
            etcd->server = server;
            if (sending == ANSWERED)
                return SECLOCK_OK;
            break;
        }
        if (sending == NOT_SENT && servers == 1)
            break;
    }
    return doubt ? SECLOCK_UNKNOWN : SECLOCK_FAILED;
}

void etcd_answer_free(struct etcd_answer *answer)
{
    json_decref(answer->json);
    answer->json = NULL;
}

int64_t etcd_number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    const char *text = json_string_value(value);
    if (!text)
        return json_integer_value(value) > 0 ? json_integer_value(value) : 0;
    size_t digits = strspn(text, "0123456789");
    return digits > 0 && text[digits] == '\0' ? (int64_t)strtoll(text, NULL, 10) : 0;
}

int64_t etcd_header(const struct etcd_answer *answer, const char *name)
{
    return etcd_number(json_object_get(answer->json, "header"), name);
}

const json_t *etcd_response(const json_t *txn, size_t index, const char *name)
{
    const json_t *responses = json_object_get(txn, "responses");
    return json_object_get(json_array_get(responses, index), name);
}

const json_t *etcd_first_key(const json_t *range)
{
    return json_array_get(json_object_get(range, "kvs"), 0);
}

/* ---- open and close ---- */

/* Once in a process, and never undone: other users of libcurl may be in other threads. */
static bool curl_is_ready(void)
{
    static bool ready; /* drivers are opened one at a time */
    ready = ready || curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
    return ready;
}

enum seclock_result etcd_open(const struct lock_core *core, const char *server,
                              struct etcd **etcd_out)
{
    char error[URL_ERROR_SIZE];
    struct etcd *etcd = calloc(1, sizeof *etcd);
    *etcd_out = NULL;
    if (!etcd || !curl_is_ready()) {
        free(etcd);
        return lock_fail(SECLOCK_FAILED, "out of memory");
    }
    if (!url_parse(server, "etcd", &etcd->url, error, sizeof error)) {
        free(etcd);
        return lock_fail(SECLOCK_CONFIG, "%s", error);
    }
    for (size_t i = 0; i < etcd->url.server_count; i++)
        url_server_place(etcd->url.servers[i].host, etcd->url.servers[i].port, etcd->places[i]);
    etcd->timeout_ms = core->options.timeout_ms;
    process_guard(&etcd->guard, &etcd->mutex);
    *etcd_out = etcd;
    return SECLOCK_OK;
}

void etcd_close(struct etcd **etcd)
{
    struct etcd *old = *etcd;
    *etcd = NULL;
    if (!old)
        return;
    while (old->idle_count > 0)
        connection_free(old->idle[--old->idle_count]);
    process_unguard(&old->guard);
    explicit_bzero(&old->url, sizeof old->url);
    explicit_bzero(old->token, sizeof old->token);
    free(old->sockets);
    free(old);
}

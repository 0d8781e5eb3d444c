/* Sends POST /order at a constant rate, whatever the answers do, and says how long they took.
 *
 * usage: pace RATE SECONDS CONNECTIONS HOST:PORT
 *
 * Request k is due at start + k / RATE, and its latency is counted from then: a request that found
 * every connection busy, or that was sent late because this program slept, has waited since it was
 * due. So a stall of the server is charged to every request that was due during it, which is what
 * "free of coordinated omission" means. Orders come from the environment as those of order.lua:
 * ORDER_SKUS, ORDER_USERS, ORDER_KEYS, and ORDER_RECORD, a file that gets the ids of orders
 * answered 201, 8 bytes each, the lowest first. Ends with one line of JSON. */

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <endian.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    CONNECTIONS_MAX = 16384,
    REQUESTS_MAX = 100000000,
    PREPARED = 4096,
    REQUEST_SIZE = 384,
    DIGITS = 8, /* of what is an order's own in its key and its user */
    ANSWER_SIZE = 2048,
    EVENTS_MAX = 256,
    LAST_ANSWERS_NS = 2000000000, /* to wait for answers after the last request */
};

struct request {
    char text[REQUEST_SIZE];
    size_t length;
    char *key, *user; /* DIGITS of each in the text; NULL: it is sent as it is */
};

struct connection {
    int fd;
    uint32_t bytes;
    int64_t due_ns;
    char answer[ANSWER_SIZE];
};

static struct connection *connections;
static uint32_t *idle; /* a ring of connections without a request, the longest idle first */
static uint32_t connection_count, idle_first, idle_count;
static struct request prepared[PREPARED];
static long users;
static uint32_t *latencies_us;
static uint64_t answered, not_201, lost;
static FILE *record;

static void fail(const char *what)
{
    fprintf(stderr, "pace: %s: %s\n", what, strerror(errno));
    exit(1);
}

static void *allocate(size_t count, size_t size)
{
    void *memory = calloc(count, size);
    if (memory == NULL)
        fail("memory");
    return memory;
}

static int64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static const char *environment(const char *name, const char *standard)
{
    const char *value = getenv(name);
    return value != NULL && value[0] != '\0' ? value : standard;
}

static void prepare_one(struct request *request, const char *sku, int sku_length, bool keyed)
{
    char body[256], key[64] = "", user[24];
    if (keyed)
        snprintf(key, sizeof key, "Idempotency-Key: %06lx%06lx.%0*d\r\n", random() & 0xffffff,
                 random() & 0xffffff, DIGITS, 0);
    snprintf(user, sizeof user, "%0*ld", keyed ? DIGITS : 1, 1 + random() % users);
    int length = snprintf(body, sizeof body, "{\"sku\":\"%.*s\",\"user_id\":\"u%s\",\"qty\":1}",
                          sku_length, sku, user);
    snprintf(request->text, REQUEST_SIZE,
             "POST /order HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
             "%sContent-Length: %d\r\n\r\n%.*s",
             key, length, length, body);
    request->length = strlen(request->text);
    request->key =
        keyed ? strstr(request->text, "Idempotency-Key: ") + strlen(key) - 2 - DIGITS : NULL;
    request->user =
        keyed ? strstr(request->text, "\"user_id\":\"u") + strlen("\"user_id\":\"u") : NULL;
}

static void prepare(void)
{
    const char *skus = environment("ORDER_SKUS", "demo"), *sku = skus;
    bool keyed = *environment("ORDER_KEYS", "") != '\0';
    users = strtol(environment("ORDER_USERS", "10000000"), NULL, 10);
    for (int i = 0; i < PREPARED; i++) {
        int length = (int)strcspn(sku, ",");
        prepare_one(&prepared[i], sku, length < 64 ? length : 64, keyed);
        sku = sku[length] == ',' ? sku + length + 1 : skus;
    }
}

static void put_digits(char *at, uint64_t number)
{
    for (int i = DIGITS - 1; i >= 0; i--, number /= 10)
        at[i] = (char)('0' + number % 10);
}

static void idle_put(uint32_t number)
{
    idle[(idle_first + idle_count++) % connection_count] = number;
}

static uint32_t idle_take(void)
{
    uint32_t number = idle[idle_first];
    idle_first = (idle_first + 1) % connection_count;
    idle_count--;
    return number;
}

static void connect_all(const struct sockaddr_in *address, int loop)
{
    for (uint32_t i = 0; i < connection_count; i++) {
        struct epoll_event event = {.events = EPOLLIN, .data.u32 = i};
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), yes = 1;
        if (fd < 0 || connect(fd, (const struct sockaddr *)address, sizeof *address) != 0)
            fail("connect");
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
        if (epoll_ctl(loop, EPOLL_CTL_ADD, fd, &event) != 0)
            fail("epoll_ctl");
        connections[i].fd = fd;
        idle_put(i);
    }
}

static void send_one(uint64_t number, int64_t due_ns)
{
    struct connection *connection = &connections[idle_take()];
    struct request *request = &prepared[number % PREPARED];
    if (request->key) {
        put_digits(request->key, number);
        put_digits(request->user, 1 + (uint64_t)random() % (uint64_t)users);
    }
    connection->due_ns = due_ns;
    connection->bytes = 0;
    if (send(connection->fd, request->text, request->length, MSG_NOSIGNAL) !=
        (ssize_t)request->length)
        lost++; /* its connection is not used again */
}

static void record_order(const char *answer)
{
    const char *text = strstr(answer, "\"order_id\":\"");
    uint64_t id = text != NULL ? htole64(strtoull(text + 12, NULL, 10)) : 0;
    if (id != 0 && fwrite(&id, sizeof id, 1, record) != 1)
        fail("ORDER_RECORD");
}

/* True when all of the answer is there. */
static bool complete(const struct connection *connection)
{
    const char *end = strstr(connection->answer, "\r\n\r\n");
    const char *length = strcasestr(connection->answer, "\r\nContent-Length:");
    if (end == NULL || length == NULL)
        return false;
    size_t head = (size_t)(end + 4 - connection->answer);
    return connection->bytes >= head + strtoul(length + 17, NULL, 10);
}

static void finish(uint32_t number)
{
    struct connection *connection = &connections[number];
    latencies_us[answered++] = (uint32_t)((now_ns() - connection->due_ns) / 1000);
    if (strncmp(connection->answer, "HTTP/1.1 201", 12) != 0)
        not_201++;
    else if (record != NULL)
        record_order(connection->answer);
    idle_put(number);
}

static void receive(uint32_t number, int loop)
{
    struct connection *connection = &connections[number];
    ssize_t bytes = recv(connection->fd, connection->answer + connection->bytes,
                         ANSWER_SIZE - 1 - connection->bytes, MSG_DONTWAIT);
    if (bytes < 0 && errno == EAGAIN)
        return;
    if (bytes <= 0) {
        lost++;
        epoll_ctl(loop, EPOLL_CTL_DEL, connection->fd, NULL);
        return;
    }
    connection->bytes += (uint32_t)bytes;
    connection->answer[connection->bytes] = '\0';
    if (complete(connection))
        finish(number);
}

static void wait_until(int64_t until_ns, int loop)
{
    struct epoll_event events[EVENTS_MAX];
    int64_t rest_ns = until_ns - now_ns();
    struct timespec rest = {0};
    if (rest_ns > 0)
        rest = (struct timespec){rest_ns / 1000000000, rest_ns % 1000000000};
    int count = epoll_pwait2(loop, events, EVENTS_MAX, &rest, NULL);
    if (count < 0 && errno != EINTR)
        fail("epoll_pwait2");
    for (int i = 0; i < count; i++)
        receive(events[i].data.u32, loop);
}

/* Sends `count` requests, each when it is due or, later, when a connection is free for it. */
static int64_t run(uint64_t count, double rate, int loop)
{
    int64_t start_ns = now_ns(), end_ns = INT64_MAX;
    uint64_t sent = 0;
    while (answered + lost < count && now_ns() < end_ns) {
        int64_t due_ns = start_ns + (int64_t)((double)sent / rate * 1e9);
        for (; sent < count && idle_count > 0 && due_ns <= now_ns(); sent++) {
            send_one(sent, due_ns);
            due_ns = start_ns + (int64_t)((double)(sent + 1) / rate * 1e9);
        }
        if (sent == count && end_ns == INT64_MAX)
            end_ns = now_ns() + LAST_ANSWERS_NS;
        wait_until(sent < count && idle_count > 0 ? due_ns : now_ns() + 100000000, loop);
        if (lost >= connection_count)
            break;
    }
    return now_ns() - start_ns;
}

static int compare(const void *a, const void *b)
{
    uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;
    return (left > right) - (left < right);
}

static double percentile_ms(double share)
{
    if (answered == 0)
        return 0;
    uint64_t rank = (uint64_t)(share * (double)answered);
    return latencies_us[rank < answered ? rank : answered - 1] / 1e3;
}

static void report(double rate, uint64_t wanted, int64_t lasted_ns)
{
    qsort(latencies_us, answered, sizeof *latencies_us, compare);
    printf("{\"rate_wanted\":%.1f,\"requests\":%llu,\"duration_s\":%.6f,\"p50_ms\":%.3f,"
           "\"p90_ms\":%.3f,\"p99_ms\":%.3f,\"p999_ms\":%.3f,\"max_ms\":%.3f,",
           rate, (unsigned long long)answered, (double)lasted_ns / 1e9, percentile_ms(0.5),
           percentile_ms(0.9), percentile_ms(0.99), percentile_ms(0.999), percentile_ms(1));
    printf("\"percentiles_ms\":[");
    for (int nines = 0; nines < 50; nines++) { /* the distance to 100 % shrinks by a tenth power */
        double distance = 1;
        for (int i = 0; i < nines; i++)
            distance *= 0.794328234724; /* 10 ** -0.1 */
        printf("%s[%.7f,%.3f]", nines ? "," : "", 1 - distance, percentile_ms(1 - distance));
    }
    uint64_t unanswered = wanted > answered + lost ? wanted - answered - lost : 0;
    printf("],\"errors\":{\"status\":%llu,\"connect\":0,\"read\":%llu,\"write\":0,"
           "\"timeout\":%llu}}\n",
           (unsigned long long)not_201, (unsigned long long)lost, (unsigned long long)unanswered);
}

static double number(const char *text, double most)
{
    char *end;
    double value = strtod(text, &end);
    if (*end != '\0' || !(value > 0 && value <= most)) {
        fprintf(stderr, "pace: %s: not a number from 0 to %.0f\n", text, most);
        exit(2);
    }
    return value;
}

static struct sockaddr_in parse_address(const char *text)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    char host[INET_ADDRSTRLEN];
    unsigned port;
    if (sscanf(text, "%15[0-9.]:%5u", host, &port) != 2 ||
        inet_pton(AF_INET, host, &address.sin_addr) != 1) {
        fprintf(stderr, "pace: %s: not HOST:PORT\n", text);
        exit(2);
    }
    address.sin_port = htons((uint16_t)port);
    return address;
}

int main(int argc, char **argv)
{
    if (argc != 5) {
        fprintf(stderr, "usage: pace RATE SECONDS CONNECTIONS HOST:PORT\n");
        return 2;
    }
    double rate = number(argv[1], 1e7), count = rate * number(argv[2], 86400);
    struct sockaddr_in address = parse_address(argv[4]);
    const char *path = environment("ORDER_RECORD", NULL);
    int loop = epoll_create1(EPOLL_CLOEXEC);

    if (loop < 0 || count > REQUESTS_MAX)
        fail("too many requests");
    if (path != NULL && (record = fopen(path, "a")) == NULL)
        fail(path);
    prctl(PR_SET_TIMERSLACK, 1UL);
    srandom((unsigned)now_ns());
    connection_count = (uint32_t)number(argv[3], CONNECTIONS_MAX);
    connections = allocate(connection_count, sizeof *connections);
    idle = allocate(connection_count, sizeof *idle);
    latencies_us = allocate((size_t)count + 1, sizeof *latencies_us);
    prepare();
    connect_all(&address, loop);
    int64_t lasted_ns = run((uint64_t)count, rate, loop);
    report(rate, (uint64_t)count, lasted_ns);
    return record != NULL && fclose(record) != 0;
}

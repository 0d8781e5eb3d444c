/* Machines with a network between them: makes a network namespace for each address, with a TUN
 * device that has it, and forwards IP packets between them, as the rule for each ordered pair says.
 *
 * usage: switch ADDRESS...    IPv4 addresses of one /24, HOSTS_MAX at most
 *
 * First it prints "host ADDRESS FD" for each: /proc/PID/fd/FD is the namespace, which lives as long
 * as the switch or a process in it. Then it answers each line of its input when the command is in
 * force; packets that are delayed meanwhile arrive unless a cut is in force by then.
 *   rule FROM TO [NAME=NUMBER...]   numbers of hosts from 0 on; what is not named is 0, "as a wire"
 *       cut=1        nothing arrives          delay_ms= jitter_ms=   each packet by itself, so that
 *       loss= twice= of a thousand packets                           they overtake each other
 *       larger=      only packets of more bytes are lost
 *       port=        only packets from or to that port of TCP are meant
 *       rate= queue= bytes a second; bytes that wait at most, more are lost
 *   count FROM TO                   answers "ok FORWARDED LOST" since the start
 * It ends with its input. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <poll.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum {
    HOSTS_MAX = 32,
    PACKET_MAX = 2048,
    READS_MAX = 64,      /* of one host, before the others' turn */
    WAITING_MAX = 65536, /* packets that are delayed */
    LINE_MAX_BYTES = 256,
    US_PER_S = 1000000
};

/* What a rule names. */
enum { CUT, DELAY_MS, JITTER_MS, LOSS, TWICE, LARGER, PORT, RATE, QUEUE, FIELDS };
static const char *const field_names[FIELDS] = {"cut",    "delay_ms", "jitter_ms", "loss", "twice",
                                                "larger", "port",     "rate",      "queue"};

struct path {
    unsigned long rule[FIELDS];
    int64_t free_us; /* when the last packet under RATE has left */
    unsigned long forwarded, lost;
};

struct packet {
    int64_t due_us;
    uint64_t number; /* of two that are due together the older one goes first */
    struct path *path;
    size_t to, size;
    unsigned char bytes[];
};

static struct path paths[HOSTS_MAX][HOSTS_MAX];
static int devices[HOSTS_MAX];
static in_addr_t addresses[HOSTS_MAX];
static size_t hosts;

static struct packet *waiting[WAITING_MAX]; /* a heap: the first is due first */
static size_t waiting_count;
static uint64_t packets;

static void die(const char *what)
{
    perror(what);
    exit(1);
}

static int64_t now_us(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * US_PER_S + now.tv_nsec / 1000;
}

/* ---- hosts ---- */

static void configure(int sock, const char *device, const char *address)
{
    struct ifreq request = {0};
    strncpy(request.ifr_name, device, IFNAMSIZ - 1);
    struct sockaddr_in place = {.sin_family = AF_INET};
    if (address) {
        if (inet_pton(AF_INET, address, &place.sin_addr) != 1)
            die(address);
        memcpy(&request.ifr_addr, &place, sizeof place);
        if (ioctl(sock, SIOCSIFADDR, &request) != 0)
            die("SIOCSIFADDR");
        place.sin_addr.s_addr = htonl(0xffffff00);
        memcpy(&request.ifr_netmask, &place, sizeof place);
        if (ioctl(sock, SIOCSIFNETMASK, &request) != 0)
            die("SIOCSIFNETMASK");
    }
    request.ifr_flags = IFF_UP;
    if (ioctl(sock, SIOCSIFFLAGS, &request) != 0)
        die("SIOCSIFFLAGS");
}

/* This process goes into the new namespace and leaves it for the next one. */
static void make_host(const char *address)
{
    if (unshare(CLONE_NEWNET) != 0)
        die("unshare");
    int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (device < 0)
        die("/dev/net/tun");
    struct ifreq request = {.ifr_name = "net0", .ifr_flags = IFF_TUN | IFF_NO_PI};
    if (ioctl(device, TUNSETIFF, &request) != 0)
        die("TUNSETIFF");
    int sock = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    if (sock < 0)
        die("socket");
    configure(sock, "lo", NULL);
    configure(sock, "net0", address);
    close(sock);
    int space = open("/proc/self/ns/net", O_RDONLY | O_CLOEXEC);
    if (space < 0)
        die("/proc/self/ns/net");
    devices[hosts] = device;
    addresses[hosts++] = inet_addr(address);
    printf("host %s %d\n", address, space);
}

/* ---- packets that wait ---- */

static bool is_due_before(const struct packet *one, const struct packet *other)
{
    return one->due_us < other->due_us ||
           (one->due_us == other->due_us && one->number < other->number);
}

static void add_waiting(struct packet *packet)
{
    size_t at = waiting_count++;
    for (; at > 0 && is_due_before(packet, waiting[(at - 1) / 2]); at = (at - 1) / 2)
        waiting[at] = waiting[(at - 1) / 2];
    waiting[at] = packet;
}

static struct packet *take_waiting(void)
{
    struct packet *first = waiting[0], *last = waiting[--waiting_count];
    size_t at = 0;
    for (size_t next = 1; next < waiting_count; next = 2 * at + 1) {
        if (next + 1 < waiting_count && is_due_before(waiting[next + 1], waiting[next]))
            next++;
        if (is_due_before(last, waiting[next]))
            break;
        waiting[at] = waiting[next];
        at = next;
    }
    waiting[at] = last;
    return first;
}

static void deliver(struct path *path, size_t to, const unsigned char *bytes, size_t size)
{
    if (!path->rule[CUT] && write(devices[to], bytes, size) == (ssize_t)size)
        path->forwarded++;
    else
        path->lost++;
}

static void hold(struct path *path, size_t to, int64_t due_us, const unsigned char *bytes,
                 size_t size)
{
    struct packet *packet = NULL;
    if (waiting_count < WAITING_MAX)
        packet = malloc(sizeof *packet + size);
    if (!packet) {
        path->lost++;
        return;
    }
    *packet = (struct packet){due_us, packets++, path, to, size};
    memcpy(packet->bytes, bytes, size);
    add_waiting(packet);
}

/* Returns how long until the next packet is due, in ms for poll(); -1: none waits. */
static int deliver_due(void)
{
    while (waiting_count > 0) {
        int64_t left_us = waiting[0]->due_us - now_us();
        if (left_us > 0)
            return (int)(left_us / 1000 + 1);
        struct packet *packet = take_waiting();
        deliver(packet->path, packet->to, packet->bytes, packet->size);
        free(packet);
    }
    return -1;
}

/* ---- rules ---- */

static bool happens(unsigned long of_thousand)
{
    return of_thousand > 0 && (unsigned long)(random() % 1000) < of_thousand;
}

/* When the packet has arrived; -1: it does not. */
static int64_t arrival_us(struct path *path, size_t size)
{
    const unsigned long *rule = path->rule;
    int64_t at = now_us();
    if (rule[CUT] || happens(rule[LOSS]) || (rule[LARGER] && size > rule[LARGER]))
        return -1;
    if (rule[RATE]) {
        int64_t rate = (int64_t)rule[RATE], begin = path->free_us > at ? path->free_us : at;
        if ((begin - at) * rate / US_PER_S > (int64_t)rule[QUEUE])
            return -1;
        at = path->free_us = begin + (int64_t)size * US_PER_S / rate;
    }
    at += (int64_t)rule[DELAY_MS] * 1000;
    if (rule[JITTER_MS])
        at += random() % ((int64_t)rule[JITTER_MS] * 1000);
    return at;
}

static bool is_meant(const unsigned long *rule, const unsigned char *bytes, size_t size)
{
    size_t head = (bytes[0] & 15U) * 4;
    if (!rule[PORT])
        return true;
    return bytes[9] == IPPROTO_TCP && size >= head + 4 &&
           ((bytes[head] * 256UL + bytes[head + 1]) == rule[PORT] ||
            (bytes[head + 2] * 256UL + bytes[head + 3]) == rule[PORT]);
}

static void forward(size_t from, size_t to, const unsigned char *bytes, size_t size)
{
    struct path *path = &paths[from][to];
    if (!is_meant(path->rule, bytes, size)) {
        path->forwarded += write(devices[to], bytes, size) == (ssize_t)size;
        return;
    }
    for (int copies = happens(path->rule[TWICE]) ? 2 : 1; copies > 0; copies--) {
        int64_t due_us = arrival_us(path, size);
        if (due_us < 0)
            path->lost++;
        else if (due_us > now_us())
            hold(path, to, due_us, bytes, size);
        else
            deliver(path, to, bytes, size);
    }
}

static void read_device(size_t from)
{
    unsigned char bytes[PACKET_MAX];
    for (int reads = 0; reads < READS_MAX; reads++) {
        ssize_t size = read(devices[from], bytes, sizeof bytes);
        if (size < 20)
            return;
        in_addr_t target;
        memcpy(&target, bytes + 16, sizeof target);
        for (size_t to = 0; to < hosts && bytes[0] >> 4 == 4; to++) {
            if (addresses[to] == target)
                forward(from, to, bytes, (size_t)size);
        }
    }
}

/* ---- commands ---- */

static bool set_field(unsigned long *rule, const char *word)
{
    const char *value = strchr(word, '=');
    for (size_t i = 0; i < FIELDS && value; i++) {
        if (strncmp(word, field_names[i], (size_t)(value - word)) == 0) {
            rule[i] = strtoul(value + 1, NULL, 10);
            return true;
        }
    }
    return false;
}

static void obey(char *line)
{
    char *rest = NULL, *verb = strtok_r(line, " ", &rest);
    char *from = strtok_r(NULL, " ", &rest), *to = strtok_r(NULL, " ", &rest);
    size_t i = from ? strtoul(from, NULL, 10) : hosts, j = to ? strtoul(to, NULL, 10) : hosts;
    unsigned long rule[FIELDS] = {0};
    bool good = verb && i < hosts && j < hosts;
    for (char *word; good && (word = strtok_r(NULL, " ", &rest));)
        good = set_field(rule, word);
    if (good && strcmp(verb, "rule") == 0) {
        memcpy(paths[i][j].rule, rule, sizeof rule);
        paths[i][j].free_us = 0;
        puts("ok");
    } else if (good && strcmp(verb, "count") == 0) {
        printf("ok %lu %lu\n", paths[i][j].forwarded, paths[i][j].lost);
    } else {
        puts("error");
    }
}

/* Returns false when the input has ended. */
static bool read_commands(void)
{
    static char text[LINE_MAX_BYTES];
    static size_t length;
    ssize_t size = read(STDIN_FILENO, text + length, sizeof text - 1 - length);
    if (size <= 0)
        return false;
    length += (size_t)size;
    text[length] = '\0';
    for (char *end; (end = strchr(text, '\n'));) {
        *end = '\0';
        obey(text);
        length -= (size_t)(end + 1 - text);
        memmove(text, end + 1, length + 1);
    }
    return length < sizeof text - 1;
}

int main(int argc, char **argv)
{
    if (argc < 2 || argc > HOSTS_MAX + 1) {
        fputs("usage: switch ADDRESS...\n", stderr);
        return 2;
    }
    setvbuf(stdout, NULL, _IOLBF, 0);
    srandom((unsigned)getpid());
    struct pollfd polled[HOSTS_MAX + 1] = {{.fd = STDIN_FILENO, .events = POLLIN}};
    for (int i = 1; i < argc; i++) {
        make_host(argv[i]);
        polled[i] = (struct pollfd){.fd = devices[i - 1], .events = POLLIN};
    }
    puts("ready");
    for (;;) {
        if (poll(polled, hosts + 1, deliver_due()) < 0 && errno != EINTR)
            die("poll");
        if (polled[0].revents && !read_commands())
            return 0;
        for (size_t i = 0; i < hosts; i++) {
            if (polled[i + 1].revents)
                read_device(i);
        }
    }
}

/* Keeps the state of the process: forks, threads, random numbers, and the ids of its clients. */
#include "lock/process.h"

#include <arpa/inet.h>
#include <assert.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

/* ---- forks ---- */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_once_t fork_watch = PTHREAD_ONCE_INIT;
static atomic_int generation;
static pthread_mutex_t guards_mutex = PTHREAD_MUTEX_INITIALIZER; /* taken after `mutex` */
static LIST_HEAD(, process_guard) guards = LIST_HEAD_INITIALIZER(guards);

/* The forking thread takes all mutexes, because a thread that held one would not exist in the
 * child, which would wait for ever. */
static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
    pthread_mutex_lock(&guards_mutex);
    const struct process_guard *i;
    LIST_FOREACH (i, &guards, in_process)
        pthread_mutex_lock(i->mutex);
}

static void after_fork_in_parent(void)
{
    const struct process_guard *i;
    LIST_FOREACH (i, &guards, in_process)
        pthread_mutex_unlock(i->mutex);
    pthread_mutex_unlock(&guards_mutex);
    pthread_mutex_unlock(&mutex);
}

static void after_fork_in_child(void)
{
    atomic_fetch_add(&generation, 1);
    after_fork_in_parent();
}

static void watch_forks(void)
{
    pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child);
}

int process_generation(void)
{
    return atomic_load_explicit(&generation, memory_order_relaxed);
}

void process_lock(void)
{
    pthread_once(&fork_watch, watch_forks);
    pthread_mutex_lock(&mutex);
}

void process_unlock(void)
{
    pthread_mutex_unlock(&mutex);
}

void process_guard(struct process_guard *guard, pthread_mutex_t *guarded)
{
    pthread_mutex_init(guarded, NULL);
    guard->mutex = guarded;
    pthread_mutex_lock(&guards_mutex);
    LIST_INSERT_HEAD(&guards, guard, in_process);
    pthread_mutex_unlock(&guards_mutex);
}

void process_unguard(struct process_guard *guard)
{
    assert(guard->mutex);
    pthread_mutex_lock(&guards_mutex);
    LIST_REMOVE(guard, in_process);
    pthread_mutex_unlock(&guards_mutex);
    pthread_mutex_destroy(guard->mutex);
}

/* ---- numbers and ids ---- */

uint64_t process_next_number(void)
{
    static _Atomic uint64_t numbers;
    return atomic_fetch_add(&numbers, 1) + 1;
}

/* why_not_the_thread_id: the system gives a dead thread's id to a later one, which would then own
 * the re-entrant locks that the dead thread never released. */
uint64_t process_thread_number(void)
{
    static _Thread_local uint64_t number;
    if (number == 0)
        number = process_next_number();
    return number;
}

void lock_random_text(char text_out[LOCK_RANDOM_SIZE])
{
    static const char hex[] = "0123456789abcdef";
    unsigned char bits[LOCK_RANDOM_SIZE / 2];
    if (getrandom(bits, sizeof bits, 0) != (ssize_t)sizeof bits)
        abort(); /* a guessable token guards nothing */
    for (size_t i = 0; i < sizeof bits; i++) {
        text_out[2 * i] = hex[bits[i] >> 4];
        text_out[2 * i + 1] = hex[bits[i] & 15];
    }
    text_out[LOCK_RANDOM_SIZE - 1] = '\0';
}

/* xorshift, seeded for each thread: jitter has to differ between processes, nothing more. */
unsigned lock_random(unsigned bound)
{
    static _Thread_local uint64_t state;
    assert(bound > 0);
    while (state == 0)
        if (getrandom(&state, sizeof state, 0) != (ssize_t)sizeof state)
            abort();
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return (unsigned)((state >> 32) % bound);
}

void lock_random_pause(unsigned most_ms)
{
    poll(NULL, 0, 1 + (int)lock_random(most_ms));
}

/* why_in_the_id: a waiter wants to know who holds the lock, and every server keeps the holder's
 * token anyway. The random part alone makes an id unique. */
enum { RANDOM_DIGITS = 18, PROCESS_DIGITS = 6, ADDRESS_DIGITS = 8 };

_Static_assert(RANDOM_DIGITS + PROCESS_DIGITS + ADDRESS_DIGITS == LOCK_RANDOM_SIZE - 1,
               "the three parts fill an id");

/* Returns the first IPv4 address of an interface that other hosts can reach; 0: not found. */
static uint32_t host_address(void)
{
    struct ifaddrs *all = NULL;
    uint32_t address = 0;
    if (getifaddrs(&all) != 0)
        return 0;
    for (const struct ifaddrs *i = all; i && address == 0; i = i->ifa_next) {
        struct sockaddr_in in;
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || (i->ifa_flags & IFF_LOOPBACK) ||
            !(i->ifa_flags & IFF_UP))
            continue;
        memcpy(&in, i->ifa_addr, sizeof in);
        address = ntohl(in.sin_addr.s_addr);
    }
    freeifaddrs(all);
    return address;
}

void process_client_id(char id_out[LOCK_RANDOM_SIZE])
{
    char who[PROCESS_DIGITS + ADDRESS_DIGITS + 1];
    snprintf(who, sizeof who, "%06x%08x", (unsigned)getpid() & 0xffffff, host_address());
    lock_random_text(id_out);
    memcpy(id_out + RANDOM_DIGITS, who, sizeof who);
}

void process_read_id(struct seclock_status *status)
{
    char digits[ADDRESS_DIGITS + 1] = "";
    const char *id = status->holder;
    if (strspn(id, "0123456789abcdef") != LOCK_RANDOM_SIZE - 1)
        return;
    memcpy(digits, id + RANDOM_DIGITS, PROCESS_DIGITS);
    status->holder_pid = (int64_t)strtoul(digits, NULL, 16);
    memcpy(digits, id + RANDOM_DIGITS + PROCESS_DIGITS, ADDRESS_DIGITS);
    struct in_addr address = {.s_addr = htonl((uint32_t)strtoul(digits, NULL, 16))};
    if (address.s_addr != 0)
        inet_ntop(AF_INET, &address, status->holder_host, sizeof status->holder_host);
}

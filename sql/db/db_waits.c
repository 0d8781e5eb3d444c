/* Keeps the connections whose write was not answered in time, until it is. */
#include "sql/db/db_waits.h"

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/memory.h"

struct wait {
    struct wait *next; /* a later one */
    MYSQL *mysql;
    int64_t since_ms;
    char server[128];
};

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct wait *first;   /* under the mutex */
static _Atomic size_t count; /* of all servers */

/* ---- fork ---- */

static void before_fork(void)
{
    pthread_mutex_lock(&mutex);
}

static void after_fork(void)
{
    pthread_mutex_unlock(&mutex);
}

/* The sessions are the parent's. */
static void in_child(void)
{
    for (; first; first = first->next)
        close((int)first->mysql->net.fd);
    count = 0;
    pthread_mutex_unlock(&mutex);
}

static void __attribute__((constructor)) begin(void)
{
    pthread_atfork(before_fork, after_fork, in_child);
}

/* ---- waits ---- */

/* Ends those that have been answered, or whose connection has broken. */
static void end_answered(void)
{
    struct wait **at = &first;
    while (*at) {
        struct wait *wait = *at;
        struct pollfd answer = {.fd = (int)wait->mysql->net.fd, .events = POLLIN};
        if (poll(&answer, 1, 0) == 0) {
            at = &wait->next;
            continue;
        }
        *at = wait->next;
        count--;
        mysql_close(wait->mysql);
        free(wait);
    }
}

void db_waits_add(MYSQL *mysql, const char *server, int waited_ms)
{
    struct wait *wait = memory_must(calloc(1, sizeof *wait));
    wait->mysql = mysql;
    wait->since_ms = clock_now_ms() - waited_ms;
    snprintf(wait->server, sizeof wait->server, "%s", server);
    pthread_mutex_lock(&mutex);
    struct wait **at = &first;
    while (*at)
        at = &(*at)->next;
    *at = wait;
    count++;
    pthread_mutex_unlock(&mutex);
}

struct db_wait db_waits_ask(const char *server)
{
    struct db_wait sum = {.count = 0};
    if (count == 0)
        return sum;
    pthread_mutex_lock(&mutex);
    end_answered();
    for (const struct wait *wait = first; wait; wait = wait->next) {
        if (strcmp(wait->server, server) != 0 || sum.count++ > 0)
            continue;
        sum.ms = clock_now_ms() - wait->since_ms;
        sum.session = mysql_thread_id(wait->mysql);
    }
    pthread_mutex_unlock(&mutex);
    return sum;
}

/* Reads the streams of watches in one thread. */
#include "lock/etcd/watch.h"

#include <assert.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/queue.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/worker.h"
#include "lock/etcd/http.h"
#include "lock/etcd/key.h"

enum {
    LINE_MAX_BYTES = 4096, /* of an answer about one key */
    IDLE_MS = 60000,       /* between looks of a thread that nobody wakes */
    LOST_MS_MIN = 500,     /* a watch that is lost sooner does not wake its waiter sooner */
};

/* why_apart: the thread may be reading a stream while its waiter goes away. So the stream belongs
 * to the thread, and the waiter only leaves it. */
struct etcd_stream {
    struct etcd_watches *watches;
    char body[ETCD_KEY64_SIZE + 128];
    LIST_ENTRY(etcd_stream) in_list;

    /* Guarded by the mutex: */
    const struct etcd_watch *watch; /* NULL: nobody waits any more */

    /* The thread's alone: */
    bool begun, running, told; /* told: the waiter was woken */
    int64_t began_ns, tell_ns; /* when it tells of its loss; 0: it is not lost */
    struct etcd_transfer transfer;
    size_t length;
    char line[LINE_MAX_BYTES];
};

struct etcd_watches {
    struct etcd *etcd;
    CURLM *multi;
    _Atomic bool stopping;
    struct process_guard guard;
    pthread_mutex_t mutex; /* guards all below */
    LIST_HEAD(, etcd_stream) streams;
    size_t count;
    bool running;
    pthread_t thread;
};

/* ---- what a stream says ---- */

static void tell(struct etcd_stream *stream)
{
    struct etcd_watches *watches = stream->watches;
    stream->told = true;
    pthread_mutex_lock(&watches->mutex);
    if (stream->watch)
        eventfd_write(stream->watch->fd, 1);
    pthread_mutex_unlock(&watches->mutex);
}

/* The first line says that the watch exists. Any other tells of a deletion or ends the watch. */
static bool is_silent(const char *line, size_t length)
{
    json_error_t error;
    json_t *json = json_loadb(line, length, 0, &error);
    const json_t *result = json_object_get(json, "result");
    bool silent = json_is_true(json_object_get(result, "created")) &&
                  !json_object_get(result, "canceled") && !json_object_get(result, "events");
    json_decref(json);
    return silent;
}

/* Ends the transfer, by another return value than the size, after the line that the waiter waits
 * for. */
static size_t take_piece(char *data, size_t size, size_t count, void *context)
{
    struct etcd_stream *stream = context;
    long status = 0;
    curl_easy_getinfo(stream->transfer.easy, CURLINFO_RESPONSE_CODE, &status);
    if (status != 200)
        return 0;
    for (size_t i = 0; i < size * count; i++) {
        if (data[i] != '\n' && stream->length < sizeof stream->line) {
            stream->line[stream->length++] = data[i];
            continue;
        }
        bool silent = data[i] == '\n' && is_silent(stream->line, stream->length);
        stream->length = 0;
        if (!silent) {
            tell(stream);
            return 0;
        }
    }
    return size * count;
}

/* ---- the thread's part; without the mutex, as libcurl opens and closes sockets ---- */

static void stream_begin(struct etcd_stream *stream)
{
    struct etcd_watches *watches = stream->watches;
    stream->begun = true;
    stream->began_ns = clock_now_ns();
    stream->tell_ns = stream->began_ns + LOST_MS_MIN * CLOCK_NS_PER_MS;
    if (!etcd_transfer_begin(watches->etcd, &stream->transfer) ||
        !etcd_transfer_set(&stream->transfer, "/v3/watch", stream->body))
        return;
    curl_easy_setopt(stream->transfer.easy, CURLOPT_FORBID_REUSE, 1L);
    curl_easy_setopt(stream->transfer.easy, CURLOPT_WRITEFUNCTION, take_piece);
    curl_easy_setopt(stream->transfer.easy, CURLOPT_WRITEDATA, stream);
    curl_easy_setopt(stream->transfer.easy, CURLOPT_PRIVATE, stream);
    stream->running = curl_multi_add_handle(watches->multi, stream->transfer.easy) == CURLM_OK;
    if (stream->running)
        stream->tell_ns = 0;
}

static void stream_stop(struct etcd_stream *stream)
{
    if (stream->running)
        curl_multi_remove_handle(stream->watches->multi, stream->transfer.easy);
    stream->running = false;
    etcd_transfer_end(&stream->transfer);
}

/* Notes the streams that have ended. */
static void take_ends(struct etcd_watches *watches)
{
    CURLMsg *message;
    int left;
    while ((message = curl_multi_info_read(watches->multi, &left)) != NULL) {
        struct etcd_stream *stream = NULL;
        curl_easy_getinfo(message->easy_handle, CURLINFO_PRIVATE, (char **)&stream);
        assert(stream && stream->running);
        stream->tell_ns = stream->began_ns + LOST_MS_MIN * CLOCK_NS_PER_MS;
        stream_stop(stream);
    }
}

/* Returns a stream that has something to be done: it is new, left by its waiter, or lost for long
 * enough. Otherwise NULL, and the time until one may have. */
static struct etcd_stream *find_work(struct etcd_watches *watches, bool *left_out, int *wait_ms_out)
{
    int64_t now_ns = clock_now_ns(), next_ns = now_ns + IDLE_MS * CLOCK_NS_PER_MS;
    struct etcd_stream *i;
    pthread_mutex_lock(&watches->mutex);
    *left_out = false;
    LIST_FOREACH (i, &watches->streams, in_list) {
        *left_out = !i->watch;
        bool lost = i->tell_ns != 0 && !i->told;
        if (!i->watch || !i->begun || (lost && i->tell_ns <= now_ns))
            break;
        if (lost && i->tell_ns < next_ns)
            next_ns = i->tell_ns;
    }
    if (i && *left_out) {
        LIST_REMOVE(i, in_list);
        watches->count--;
    }
    pthread_mutex_unlock(&watches->mutex);
    *wait_ms_out = (int)((next_ns - now_ns) / CLOCK_NS_PER_MS) + 1;
    return i;
}

static void *watch_thread(void *argument)
{
    struct etcd_watches *watches = argument;
    prctl(PR_SET_NAME, "seclock-watch");
    while (!watches->stopping) {
        struct etcd_stream *stream;
        bool left;
        int wait_ms, running;
        curl_multi_perform(watches->multi, &running);
        take_ends(watches);
        while ((stream = find_work(watches, &left, &wait_ms)) != NULL) {
            if (left) {
                stream_stop(stream);
                free(stream);
            } else if (!stream->begun)
                stream_begin(stream);
            else
                tell(stream);
        }
        curl_multi_poll(watches->multi, NULL, 0, wait_ms, NULL);
    }
    return NULL;
}

/* The mutex is held. */
static bool start(struct etcd_watches *watches)
{
    if (watches->running)
        return true;
    if (!watches->multi)
        watches->multi = curl_multi_init();
    if (!watches->multi)
        return false;
    watches->running = worker_thread(&watches->thread, watch_thread, watches);
    return watches->running;
}

/* ---- the waiter's part ---- */

bool etcd_watch_begin(struct etcd_watches *watches, struct etcd_watch *watch, const char *key64,
                      int64_t revision)
{
    struct etcd_stream *stream = calloc(1, sizeof *stream);
    watch->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (!stream || watch->fd < 0) {
        if (watch->fd >= 0)
            close(watch->fd);
        free(stream);
        return false;
    }
    stream->watches = watches;
    stream->watch = watch;
    snprintf(stream->body, sizeof stream->body,
             "{\"create_request\":{\"key\":\"%s\",\"start_revision\":\"%" PRId64
             "\",\"filters\":[\"NOPUT\"]}}",
             key64, revision);
    pthread_mutex_lock(&watches->mutex);
    bool begun = watches->count < ETCD_WATCHES_MAX && start(watches);
    if (begun) {
        LIST_INSERT_HEAD(&watches->streams, stream, in_list);
        watches->count++;
        watch->stream = stream;
    }
    pthread_mutex_unlock(&watches->mutex);
    if (begun)
        curl_multi_wakeup(watches->multi);
    else {
        close(watch->fd);
        free(stream);
    }
    return begun;
}

void etcd_watch_end(struct etcd_watches *watches, struct etcd_watch *watch)
{
    pthread_mutex_lock(&watches->mutex);
    assert(watch->stream->watch == watch);
    watch->stream->watch = NULL;
    pthread_mutex_unlock(&watches->mutex);
    watch->stream = NULL;
    curl_multi_wakeup(watches->multi);
    close(watch->fd); /* last: another thread may get its number at once */
}

/* ---- open and close ---- */

struct etcd_watches *etcd_watches_open(struct etcd *etcd)
{
    struct etcd_watches *watches = calloc(1, sizeof *watches);
    if (!watches)
        return NULL;
    watches->etcd = etcd;
    process_guard(&watches->guard, &watches->mutex);
    return watches;
}

void etcd_watches_close(struct etcd_watches **watches)
{
    struct etcd_watches *old = *watches;
    struct etcd_stream *stream, *next;
    *watches = NULL;
    if (!old)
        return;
    old->stopping = true;
    if (old->running) {
        curl_multi_wakeup(old->multi);
        pthread_join(old->thread, NULL);
    }
    for (stream = LIST_FIRST(&old->streams); stream; stream = next) {
        assert(!stream->watch); /* its waiter has stopped waiting */
        next = LIST_NEXT(stream, in_list);
        stream_stop(stream);
        free(stream);
    }
    if (old->multi)
        curl_multi_cleanup(old->multi);
    process_unguard(&old->guard);
    free(old);
}

void etcd_watches_forget(struct etcd_watches *watches)
{
    const struct etcd_stream *stream;
    LIST_FOREACH (stream, &watches->streams, in_list)
        if (stream->watch)
            close(stream->watch->fd);
}

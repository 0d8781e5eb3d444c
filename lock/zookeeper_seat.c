/* A place in a ZooKeeper queue: the node that whoever waits for a lock, or has it, has made. */
#include "lock/zookeeper_seat.h"

#ifdef LOCK_WITH_ZOOKEEPER

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "lock/text.h"
#include "lock/text.h"
#include "lock/zookeeper_line.h"

enum seclock_result seat_failure(const struct seat *seat, enum zk_result result)
{
    lock_set_error("zookeeper: %s",
                   seat->session ? zk_session_error(seat->session) : "no session in time");
    return result == ZK_UNKNOWN ? SECLOCK_UNKNOWN : SECLOCK_FAILED;
}

bool seat_connected_again(const struct seat *seat, enum zk_result result)
{
    return (result == ZK_UNKNOWN || result == ZK_FAILED) && seat->session &&
           zk_session_await(seat->session, seat->timeout_ms) == ZK_OK;
}

void seat_watch_stop(struct seat *seat)
{
    if (seat->watching)
        zk_watch_end(seat->session, &seat->watch);
    seat->watching = false;
}

void seat_forget(struct seat *seat)
{
    seat_watch_stop(seat);
    zk_session_drop(&seat->session);
    seat->path[0] = '\0';
    seat->in_doubt = false;
}

void seat_clean_later(const struct seat *seat)
{
    char start[LINE_START_MAX];
    line_start(seat->request, start);
    zk_delete_later(seat->session, seat->directory, start);
}

void seat_leave(struct seat *seat)
{
    seat_watch_stop(seat);
    if (!seat->session || (seat->path[0] == '\0' && !seat->in_doubt))
        return;
    enum zk_result result =
        seat->path[0] != '\0' ? zk_delete(seat->session, seat->path, seat->timeout_ms) : ZK_UNKNOWN;
    if (result == ZK_UNKNOWN || result == ZK_FAILED)
        seat_clean_later(seat);
}

void seat_free(struct seat *seat)
{
    seat_forget(seat);
    free(seat);
}

struct seat *seat_new(struct zk *zk, const char *prefix, const struct seclock_handle *handle,
                      int timeout_ms)
{
    struct seat *seat = calloc(1, sizeof *seat);
    if (!seat)
        return NULL;
    seat->zk = zk;
    seat->timeout_ms = timeout_ms;
    line_directory(prefix, handle->name, seat->directory);
    strcpy(seat->owner, handle->owner);
    strcpy(seat->request, handle->request);
    return seat;
}

enum zk_result seat_find(struct seat *seat)
{
    struct zk_names names;
    struct zk_node node = {0};
    zk_sync(seat->session, seat->directory);
    enum zk_result result = zk_list(seat->session, seat->directory, seat->timeout_ms, &names);
    const char *child = line_of_request(&names, seat->request);
    if (result == ZK_OK && child) {
        line_child(seat->directory, child, seat->path);
        result = zk_read(seat->session, seat->path, false, seat->timeout_ms, &node);
        if (result == ZK_OK && !node.mine) {
            zk_delete(seat->session, seat->path, seat->timeout_ms);
            result = ZK_NONE;
        }
    } else if (result == ZK_OK)
        result = ZK_NONE;
    zk_names_free(&names);
    if (result == ZK_OK || result == ZK_NONE)
        seat->in_doubt = false;
    if (result == ZK_OK)
        seat->czxid = node.czxid;
    else
        seat->path[0] = '\0';
    return result;
}

static enum zk_result make_directory(struct seat *seat)
{
    enum zk_result result = zk_make_container(seat->session, seat->directory, seat->timeout_ms);
    if (result != ZK_NONE)
        return result;
    result = zk_make_container(seat->session, LINE_ROOT, seat->timeout_ms);
    return result == ZK_OK ? zk_make_container(seat->session, seat->directory, seat->timeout_ms)
                           : result;
}

static enum zk_result seat_make(struct seat *seat)
{
    char prefix[ZK_PATH_MAX];
    line_prefix(seat->directory, seat->request, prefix);
    enum zk_result result = ZK_NONE;
    for (int tries = 0; tries < 3 && result == ZK_NONE; tries++) {
        result = zk_make_ephemeral(seat->session, prefix, seat->owner, seat->timeout_ms, seat->path,
                                   &seat->czxid);
        if (result == ZK_NONE) { /* no directory yet, or the server has just cleaned it away */
            enum zk_result made = make_directory(seat);
            result = made == ZK_OK ? ZK_NONE : made;
        }
    }
    return result == ZK_NONE ? ZK_FAILED : result;
}

enum zk_result seat_take(struct seat *seat)
{
    if (seat->session && zk_session_over(seat->session))
        seat_forget(seat);
    if (!seat->session)
        seat->session = zk_session_take(seat->zk, seat->timeout_ms);
    if (!seat->session)
        return ZK_FAILED;
    if (seat->path[0] != '\0')
        return ZK_OK;
    enum zk_result result = seat->in_doubt ? seat_find(seat) : seat_make(seat);
    if (result == ZK_NONE)
        result = seat_make(seat);
    if (result == ZK_UNKNOWN) {
        seat->in_doubt = true;
        if (seat_connected_again(seat, result))
            result = seat_find(seat);
        if (result == ZK_NONE)
            result = seat_make(seat);
    }
    if (result == ZK_OVER) { /* it took its nodes with it */
        seat_forget(seat);
        result = ZK_FAILED;
    }
    return result;
}

/* Watches the child ahead. ZK_NONE: it has just gone. */
static enum zk_result watch_start(struct seat *seat, const char *ahead)
{
    char path[ZK_PATH_MAX];
    struct zk_node node;
    line_child(seat->directory, ahead, path);
    seat_watch_stop(seat);
    seat->watching = zk_watch_begin(seat->session, &seat->watch, path);
    if (!seat->watching)
        return ZK_FAILED;
    return zk_read(seat->session, path, true, seat->timeout_ms, &node);
}

enum zk_result seat_look(struct seat *seat, bool watched, bool *first_out)
{
    struct zk_names names;
    const char *own = strrchr(seat->path, '/') + 1, *ahead = NULL;
    enum zk_result result = zk_list(seat->session, seat->directory, seat->timeout_ms, &names);
    if (result == ZK_OK && !line_of_request(&names, seat->request))
        result = ZK_NONE;
    if (result == ZK_OK)
        result = line_ahead(seat->session, seat->directory, &names, own, seat->czxid,
                            seat->timeout_ms, &ahead);
    *first_out = result == ZK_OK && !ahead;
    if (result == ZK_OK && ahead && watched) {
        result = watch_start(seat, ahead);
        if (result == ZK_NONE) { /* look again at once: the wait ends before it begins */
            eventfd_write(seat->watch.fd, 1);
            result = ZK_OK;
        }
    }
    zk_names_free(&names);
    return result;
}

#endif

/* Nodes of ZooKeeper that are left behind, to be deleted when there is a connection again. All but
 * zk_delete_later runs in the library's thread, which must not wait. */
#include "lock/zookeeper.h"

#ifdef LOCK_WITH_ZOOKEEPER

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lock/zookeeper_private.h"

struct removal {
    struct zk_session *session;
    char directory[ZK_PATH_MAX];
    char start[128]; /* of the child's name */
    bool asked;      /* an answer is due */
    struct removal *next;
};

static void removal_drop(struct removal *removal)
{
    struct zk_session *session = removal->session;
    pthread_mutex_lock(&session->mutex);
    struct removal **link = &session->removals;
    while (*link && *link != removal)
        link = &(*link)->next;
    if (*link)
        *link = removal->next;
    pthread_mutex_unlock(&session->mutex);
    free(removal);
}

static void removal_start(struct removal *removal);

/* After an error of the connection it stays in the list, for when there is a connection again: that
 * may be now already. */
static void on_removed(int rc, const void *data)
{
    struct removal *removal = (struct removal *)(uintptr_t)data;
    struct zk_session *session = removal->session;
    if (rc == ZOK || rc == ZNONODE) {
        removal_drop(removal);
        return;
    }
    pthread_mutex_lock(&session->mutex);
    bool lost = rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT;
    bool again = lost && session->connected;
    removal->asked = again || !lost; /* any other error is for ever */
    pthread_mutex_unlock(&session->mutex);
    if (again)
        removal_start(removal);
}

static void on_removal_names(int rc, const struct String_vector *names, const void *data)
{
    struct removal *removal = (struct removal *)(uintptr_t)data;
    char path[2 * ZK_PATH_MAX];
    size_t length = strlen(removal->start);
    int32_t i = 0;
    while (rc == ZOK && i < names->count && strncmp(names->data[i], removal->start, length) != 0)
        i++;
    if (rc != ZOK || i == names->count) {
        on_removed(rc, removal);
        return;
    }
    snprintf(path, sizeof path, "%s/%s", removal->directory, names->data[i]);
    int sent = zoo_adelete(removal->session->handle, path, -1, on_removed, removal);
    if (sent != ZOK)
        on_removed(sent, removal);
}

/* Asks for the nodes of a removal marked as asked. The sync in front makes a server that lags
 * behind show what was made through another. */
static void removal_start(struct removal *removal)
{
    zhandle_t *handle = removal->session->handle;
    zk_sync(removal->session, removal->directory);
    int sent = zoo_aget_children(handle, removal->directory, 0, on_removal_names, removal);
    if (sent != ZOK)
        on_removed(sent, removal);
}

void zk_delete_later(struct zk_session *session, const char *directory, const char *start)
{
    struct removal *removal = calloc(1, sizeof *removal);
    if (!removal || session->pid != getpid()) {
        free(removal); /* the end of the session does it later */
        return;
    }
    removal->session = session;
    snprintf(removal->directory, sizeof removal->directory, "%s", directory);
    snprintf(removal->start, sizeof removal->start, "%s", start);
    pthread_mutex_lock(&session->mutex);
    removal->next = session->removals;
    session->removals = removal;
    bool now = session->connected;
    removal->asked = now;
    pthread_mutex_unlock(&session->mutex);
    if (now)
        removal_start(removal);
}

/* The next removal that nobody has asked for, marked as asked; NULL when there is none. */
static struct removal *removal_next(struct zk_session *session)
{
    pthread_mutex_lock(&session->mutex);
    struct removal *removal = session->removals;
    while (removal && removal->asked)
        removal = removal->next;
    if (removal)
        removal->asked = true;
    pthread_mutex_unlock(&session->mutex);
    return removal;
}

void zk_removals_start(struct zk_session *session)
{
    struct removal *removal;
    while ((removal = removal_next(session)))
        removal_start(removal);
}

void zk_removals_free(struct zk_session *session)
{
    while (session->removals) {
        struct removal *removal = session->removals;
        session->removals = removal->next;
        free(removal);
    }
}

#endif

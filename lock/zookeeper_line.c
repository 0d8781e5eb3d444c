/* Who stands where in a queue: the names of a lock's nodes in ZooKeeper. */
#include "lock/zookeeper_line.h"

#ifdef LOCK_WITH_ZOOKEEPER

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "-lock-"

/* numbers_run_out: the server counts a directory's children in 32 bits. Some versions go on below
 * zero after the greatest number, so what matters is which of two is ahead of the other on the
 * circle. Others (3.8) give the greatest one again and again: of children with one number, the
 * czxid tells, which takes a question for each. */

/* Appends a name as one part of a path: what a path cannot have is percent-encoded. */
static void append_encoded(char *path, const char *name)
{
    size_t used = strlen(path);
    for (; *name != '\0'; name++) {
        unsigned char c = (unsigned char)*name;
        bool plain = isalnum(c) || strchr("_-:,@+=~", c);
        assert(used + 4 < ZK_PATH_MAX);
        used += (size_t)snprintf(path + used, 4, plain ? "%c" : "%%%02X", c);
    }
}

void line_directory(const char *prefix, const char *name, char path_out[ZK_PATH_MAX])
{
    strcpy(path_out, LINE_ROOT "/");
    append_encoded(path_out, prefix);
    append_encoded(path_out, name);
}

void line_prefix(const char *directory, const char *request, char path_out[ZK_PATH_MAX])
{
    snprintf(path_out, ZK_PATH_MAX, "%.*s/%s" MARK, LINE_DIRECTORY_MAX, directory, request);
}

void line_start(const char *request, char start_out[LINE_START_MAX])
{
    snprintf(start_out, LINE_START_MAX, "%s" MARK, request);
}

void line_child(const char *directory, const char *child, char path_out[ZK_PATH_MAX])
{
    snprintf(path_out, ZK_PATH_MAX, "%.*s/%.*s", LINE_DIRECTORY_MAX, directory, LINE_CHILD_MAX,
             child);
}

const char *line_of_request(const struct zk_names *names, const char *request)
{
    size_t length = strlen(request);
    for (size_t i = 0; i < names->count; i++)
        if (strncmp(names->name[i], request, length) == 0 &&
            strncmp(names->name[i] + length, MARK, strlen(MARK)) == 0)
            return names->name[i];
    return NULL;
}

/* The number that the server gave a child; false when it is no child of a lock. */
static bool sequence_of(const char *name, int32_t *sequence_out)
{
    const char *mark = strstr(name, MARK);
    *sequence_out = mark ? (int32_t)strtol(mark + strlen(MARK), NULL, 10) : 0;
    return mark != NULL;
}

/* On the circle. */
static bool comes_before(int32_t a, int32_t b)
{
    return (int32_t)((uint32_t)a - (uint32_t)b) < 0;
}

/* A child, and when it came: by number, then by czxid, which is 0 until somebody wants to know. */
struct place {
    const char *child;
    int32_t number;
    int64_t czxid;
};

struct search {
    struct zk_session *session;
    const char *directory;
    int timeout_ms;
    enum zk_result result; /* of the questions */
};

/* False when the child has gone, or nobody answers. */
static bool czxid_known(struct search *search, struct place *place)
{
    char path[ZK_PATH_MAX];
    struct zk_node node;
    if (place->czxid != 0)
        return true;
    if (search->result != ZK_OK)
        return false;
    line_child(search->directory, place->child, path);
    enum zk_result result = zk_read(search->session, path, false, search->timeout_ms, &node);
    place->czxid = result == ZK_OK ? node.czxid : 0;
    search->result = result == ZK_NONE ? ZK_OK : result;
    return result == ZK_OK;
}

static bool is_before(struct search *search, struct place *a, struct place *b)
{
    if (a->number != b->number)
        return comes_before(a->number, b->number);
    if (!czxid_known(search, a))
        return false;
    return !czxid_known(search, b) || a->czxid < b->czxid;
}

enum zk_result line_ahead(struct zk_session *session, const char *directory,
                          const struct zk_names *names, const char *own, int64_t czxid,
                          int timeout_ms, const char **child_out)
{
    struct search search = {session, directory, timeout_ms, ZK_OK};
    struct place self = {.child = own, .czxid = czxid}, found = {.child = NULL};
    if (own)
        sequence_of(own, &self.number);
    for (size_t i = 0; i < names->count; i++) {
        struct place place = {.child = names->name[i]};
        if (!sequence_of(place.child, &place.number) || (own && strcmp(place.child, own) == 0) ||
            (own && !is_before(&search, &place, &self)))
            continue;
        if (!found.child || is_before(&search, own ? &found : &place, own ? &place : &found))
            found = place;
    }
    *child_out = found.child;
    return search.result;
}

enum zk_result line_first(struct zk_session *session, const char *directory,
                          const struct zk_names *names, int timeout_ms, const char **child_out)
{
    return line_ahead(session, directory, names, NULL, 0, timeout_ms, child_out);
}

#endif

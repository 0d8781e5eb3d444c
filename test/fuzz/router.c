/* Fuzzes the router: METHOD, a space, and the path as it was sent, with its query.
 *
 * A route is of a class that was asked for and takes the method; what it leaves to the handler is
 * one part of a path. Where there is none, each method of Allow has one. A cut query is bounded. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "service/http/http.h"
#include "test/fuzz/fuzz.h"

enum { QUERY_PARAMETERS_MAX = 50 };

static const struct route *find(unsigned classes, const char *method, const struct route_path *path)
{
    enum problem problem = PROBLEM_COUNT;
    const char *allow = "poison";
    const struct route *route = route_find(classes, method, path, &problem, &allow);
    if (route) {
        assert(problem == PROBLEM_NONE && (classes & ROUTE_BIT(route->class)));
        assert(strcmp(method, route->method) == 0 ||
               (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0));
        assert(route->start);
        return route;
    }
    assert(problem == PROBLEM_NOT_FOUND || problem == PROBLEM_METHOD_NOT_ALLOWED);
    assert((problem == PROBLEM_METHOD_NOT_ALLOWED) == (allow != NULL));
    return NULL;
}

/* Each method that Allow names is one that the path takes. */
static void check_allow(const char *method, const struct route_path *path)
{
    enum problem problem;
    const char *allow;
    char one[16];
    if (route_find(ROUTE_ALL, method, path, &problem, &allow) || !allow)
        return;
    assert(allow[0] != '\0' && !strstr(allow, ", ,"));
    for (const char *at = allow; *at; at += strspn(at, ", ")) {
        size_t length = strcspn(at, ", ");
        assert(length > 0 && length < sizeof one);
        memcpy(one, at, length);
        one[length] = '\0';
        assert(strcmp(one, method) != 0 && find(ROUTE_ALL, one, path));
        at += length;
    }
}

/* The tail is one part of the path, and no dots that a proxy would take out. */
static void check_tail(const struct route *route, const struct route_path *path)
{
    size_t head = route_tail(route);
    assert(head <= strlen(path->text) && path->plain_head >= head);
    if (route->path[head] != '{' && route->path[head - 1] != '/')
        return;
    const char *tail = path->text + head;
    size_t length = strcspn(tail, "/");
    assert(!(length == 1 && tail[0] == '.') && !(length == 2 && memcmp(tail, "..", 2) == 0));
    const char *rest = strchr(route->path, '}');
    assert(strcmp(tail + length, rest ? rest + 1 : "") == 0);
}

static void check_routes(const char *method, const struct route_path *path)
{
    const struct route *any = find(ROUTE_ALL, method, path);
    const struct route *operators = find(ROUTE_OPERATORS, method, path);
    const struct route *public = find(ROUTE_PUBLIC, method, path);
    assert(!operators || operators == any);
    assert(!public || public == any);
    assert((any != NULL) == (operators || public));
    if (any)
        check_tail(any, path);
    else
        check_allow(method, path);
}

/* On a copy, as the query is cut in place; what stands before it stays. */
static void check_query(const char *uri)
{
    char *copy = strdup(uri);
    if (!copy)
        abort();
    bool cut = head_cut_query(copy);
    size_t before = strcspn(uri, "?"), parameters = 1;
    assert(strncmp(copy, uri, before) == 0);
    for (const char *at = copy; (at = strchr(at, '&')) && strchr(copy, '?'); at++)
        parameters += at > copy + before;
    assert(parameters <= QUERY_PARAMETERS_MAX && (cut || strcmp(copy, uri) == 0));
    free(copy);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct fuzz_input input = {data, size};
    char *method = fuzz_text(&input, ' ', NULL);
    char *uri = fuzz_text(&input, ' ', NULL);
    struct route_path path = {.text = uri};
    struct request_http http;
    check_query(uri);
    head_read_target(uri, &http);
    assert(http.uri_length == strlen(uri) && http.path_at <= strcspn(uri, "?%"));
    assert(http.path_at == 0 || !http.bad_target);
    path.text = uri += http.path_at;
    route_note_encoding(uri, &path);
    size_t length = strcspn(uri, "?");
    assert(path.plain_head <= length && path.plain_tail <= length);
    uri[length] = '\0';
    size_t decoded = exchange_unescape(NULL, NULL, uri);
    assert(decoded <= length && strlen(uri) == decoded);
    check_routes(method, &path);
    free(uri - http.path_at);
    free(method);
    return 0;
}

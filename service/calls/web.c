/* The web pages and the API description, whose files are built into the program (service/web/,
 * service/openapi.json). */
#include "service/calls/calls.h"

#include <pthread.h>
#include <string.h>

#include "service/request/prepared.h"
#include "web_files.h"

/* A page loads nothing from elsewhere, sends nothing elsewhere and cannot be framed: text injected
 * into it can neither run a script nor reach another server. */
#define POLICY                                                                                     \
    "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "                \
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

/* web_files.h has a row per file; the route decides on the path's class of calls. */
static const struct file {
    const char *path;
    const char *content_type;
    const char *etag, *text;
    size_t length;
} files[] = {WEB_FILES};

enum { FILES = sizeof files / sizeof *files };

/* All requests for a file share one answer, which lives as long as the process. */
static struct {
    struct prepared *whole, *not_modified;
} answers[FILES];
static pthread_once_t answers_once = PTHREAD_ONCE_INIT;

static void prepare_files(void)
{
    for (size_t i = 0; i < FILES; i++) {
        /* One spare element: the second answer's headers start at the second. */
        const struct prepared_header headers[PREPARED_HEADERS_MAX + 1] = {
            {"Content-Type", files[i].content_type}, {"ETag", files[i].etag},
            {"Cache-Control", "no-cache"}, /* a browser revalidates its copy each time */
            {"Content-Security-Policy", POLICY},     {"X-Content-Type-Options", "nosniff"},
            {"Referrer-Policy", "same-origin"}, /* with none, some browsers also omit Origin */
        };
        answers[i].whole = prepared_make(200, headers, files[i].text, files[i].length, false);
        answers[i].not_modified = prepared_make(304, headers + 1, "", 0, false);
    }
}

/* RFC 9110, 13.1.2: a list of tags, each weak or not, or an asterisk. Tags contain no quotes, so
 * ours with its quotes matches only a whole tag. */
static bool has_file(const char *if_none_match, const struct file *file)
{
    return if_none_match &&
           (strcmp(if_none_match, "*") == 0 || strstr(if_none_match, file->etag) != NULL);
}

enum call_start call_web_file(struct request *request, const struct call *call)
{
    pthread_once(&answers_once, prepare_files);
    for (size_t i = 0; i < FILES; i++) {
        if (strcmp(files[i].path, call->path) != 0)
            continue;
        bool same = has_file(call->if_none_match, &files[i]);
        answer_prepared(&request->answer,
                        prepared_hold(same ? answers[i].not_modified : answers[i].whole));
        return START_ANSWERED;
    }
    answer_problem(&request->answer, PROBLEM_NOT_FOUND);
    return START_ANSWERED;
}

enum call_start call_web_demo(struct request *request, const struct call *call)
{
    if (strcmp(call->service->config.demo, "on") == 0)
        return call_web_file(request, call);
    answer_problem(&request->answer, PROBLEM_NOT_FOUND);
    return START_ANSWERED;
}

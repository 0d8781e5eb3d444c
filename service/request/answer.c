/* The answer to a request: a fixed problem or a text. */
#include "service/request/answer.h"

#include <assert.h>
#include <jansson.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "service/request/prepared.h"
#include "service/metrics/metrics.h"

#define PROBLEM_ROW(name, status, code, title, detail, retry) {status, retry, code, title, detail},
static const struct {
    unsigned status;
    unsigned retry_after_s;
    const char *code;
    const char *title;
    const char *detail;
} problems[PROBLEM_COUNT] = {PROBLEMS(PROBLEM_ROW)};
#undef PROBLEM_ROW

unsigned problem_status(enum problem problem)
{
    /* Without its own counter a status would vanish among status="other", which nobody watches. */
#define PROBLEM_COUNTED(name, status, code, title, detail, retry)                                  \
    static_assert(METRIC_HTTP_##status < METRIC_HTTP_OTHER, "METRICS_STATUSES has " #status);
    PROBLEMS(PROBLEM_COUNTED)
#undef PROBLEM_COUNTED
    assert(problem < PROBLEM_COUNT);
    return problems[problem].status;
}

unsigned problem_retry_after(enum problem problem)
{
    assert(problem < PROBLEM_COUNT);
    return problems[problem].retry_after_s;
}

size_t problem_text(enum problem problem, const char *detail, const char *extra, char *out,
                    size_t size)
{
    assert(problem < PROBLEM_COUNT);
    /* Only a detail of the caller's may need escapes; one that is not UTF-8 is left out. */
    json_t *text = detail ? json_string(detail) : NULL;
    char *quoted = text ? json_dumps(text, JSON_ENCODE_ANY) : NULL;
    const char *plain = detail ? "" : problems[problem].detail;
    const char *mark = quoted ? "" : "\"";
    int length = snprintf(out, size,
                          "{\"type\":\"urn:seckill:problem:%s\",\"title\":\"%s\",\"status\":%u,"
                          "\"detail\":%s%s%s,\"code\":\"%s\"%s}\n",
                          problems[problem].code, problems[problem].title, problems[problem].status,
                          mark, quoted ? quoted : plain, mark, problems[problem].code, extra);
    free(quoted);
    json_decref(text);
    assert(length > 0);
    return (size_t)length < size ? (size_t)length : size - 1;
}

void answer_problem(struct answer *answer, enum problem problem)
{
    answer_clear(answer);
    answer->status = problem_status(problem);
    answer->problem = problem;
}

void answer_members(struct answer *answer, enum problem problem, const char *detail,
                    const char *members, ...)
{
    enum { FRAME_MAX = 400 }; /* everything but the members, with the problem's own detail */
    static const char type[] = "application/problem+json";
    char extra[ANSWER_INLINE_MAX];
    va_list arguments;
    va_start(arguments, members);
    vsnprintf(extra, sizeof extra, members, arguments);
    va_end(arguments);
    size_t size = FRAME_MAX + strlen(extra);
    if (detail || size <= ANSWER_INLINE_MAX) {
        char *text = answer_begin(answer, problem_status(problem), type);
        answer->length = problem_text(problem, detail, extra, text, ANSWER_INLINE_MAX);
    } else {
        char *text = memory_must(malloc(size));
        size_t length = problem_text(problem, detail, extra, text, size);
        answer_text(answer, problem_status(problem), type, text, length);
    }
    answer->retry_after_s = problem_retry_after(problem);
}

void answer_detail(struct answer *answer, enum problem problem, const char *detail)
{
    answer_members(answer, problem, detail, "%s", "");
}

void answer_unknown_outcome(struct answer *answer, uint64_t order_id)
{
    if (order_id != 0)
        answer_members(answer, PROBLEM_OUTCOME_UNKNOWN, NULL, ",\"order_id\":\"%llu\"",
                       (unsigned long long)order_id);
    else
        answer_detail(answer, PROBLEM_OUTCOME_UNKNOWN, NULL);
}

static _Atomic size_t bytes_allocated; /* of all answers */

size_t answers_bytes(void)
{
    return atomic_load_explicit(&bytes_allocated, memory_order_relaxed);
}

void answer_text(struct answer *answer, unsigned status, const char *content_type, char *text,
                 size_t length)
{
    answer_clear(answer);
    answer->status = status;
    answer->content_type = content_type;
    answer->text = text;
    answer->length = length;
    atomic_fetch_add_explicit(&bytes_allocated, length, memory_order_relaxed);
}

char *answer_begin(struct answer *answer, unsigned status, const char *content_type)
{
    answer_clear(answer);
    answer->status = status;
    answer->content_type = content_type;
    answer->text = answer->inline_text;
    return answer->text;
}

void answer_json(struct answer *answer, unsigned status, struct json_t *value)
{
    char *text = memory_must(json_dumps(value, JSON_COMPACT));
    json_decref(value);
    size_t length = strlen(text);
    text[length] = '\n'; /* in the place of the NUL: answers carry their length */
    answer_text(answer, status, "application/json", text, length + 1);
}

void answer_prepared(struct answer *answer, struct prepared *prepared)
{
    answer_clear(answer);
    answer->status = 200;
    answer->prepared = prepared;
}

/* content_type stays: it means nothing without one of the members cleared here. */
void answer_clear(struct answer *answer)
{
    if (answer->text && answer->text != answer->inline_text) {
        atomic_fetch_sub_explicit(&bytes_allocated, answer->length, memory_order_relaxed);
        free(answer->text);
    }
    prepared_release(&answer->prepared);
    answer->text = NULL;
    answer->length = 0;
    answer->status = 0;
    answer->new_order_id = 0;
    answer->retry_after_s = 0;
    answer->limit = 0;
    answer->problem = PROBLEM_NONE;
}

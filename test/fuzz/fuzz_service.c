/* A service without servers: its Redis and its ledger refuse every connection. */
#define _GNU_SOURCE /* memmem */
#include "test/fuzz/fuzz_service.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "test/fuzz/fuzz.h"

struct service *fuzz_service(void)
{
    static struct service service;
    static bool open;
    char *argv[] = {(char[]){"seckilld"},
                    (char[]){"--redis-url=redis://127.0.0.1:1"},
                    (char[]){"--mysql-url=mysql://u@localhost/d?socket=/nonexistent/socket"},
                    (char[]){"--admin-token=" FUZZ_TOKEN},
                    (char[]){"--shop-token=" FUZZ_TOKEN},
                    (char[]){"--trusted-proxies=127.0.0.1"},
                    NULL};
    char *envp[] = {NULL};
    if (open)
        return &service;
    open = true;
    fuzz_silence();
    if (config_load(&service.config, argv, envp, stdout, stderr) != CONFIG_OK)
        abort();
    service_open(&service);
    atomic_store(&service.prepared, true);
    return &service;
}

#define PROBLEM_ROW(name, status, code, title, detail, retry) {status, code},
static const struct {
    unsigned status;
    const char *code;
} known[] = {PROBLEMS(PROBLEM_ROW)};
#undef PROBLEM_ROW

bool fuzz_is_problem(const char *text, size_t length, unsigned status)
{
    static const char member[] = "\"code\":\"";
    const char *at = memmem(text, length, member, sizeof member - 1);
    if (!at || length < 2 || memcmp(text + length - 2, "}\n", 2) != 0)
        return false;
    at += sizeof member - 1;
    size_t left = (size_t)(text + length - at);
    for (size_t i = 0; i < PROBLEM_COUNT; i++) {
        size_t code = strlen(known[i].code);
        if (known[i].status == status && code < left && memcmp(at, known[i].code, code) == 0 &&
            at[code] == '"')
            return true;
    }
    return false;
}

void fuzz_check_refusal(const struct request *request)
{
    const struct answer *answer = &request->answer;
    assert(answer->status >= 400 && answer->status <= 503);
    if (answer->text)
        assert(fuzz_is_problem(answer->text, answer->length, answer->status));
    else
        assert(answer->problem < PROBLEM_COUNT &&
               problem_status(answer->problem) == answer->status);
}

/* GET /dashboard/live and GET /admin/actions. */
#include "service/calls/live.h"

#include <jansson.h>
#include <stdarg.h>
#include <stdio.h>

#include "service/live/admin_actions.h"
#include "service/request/faults.h"
#include "service/live/live_page.h"

enum { DETAIL_SIZE = 320 };

enum call_start call_live_get(struct service *service, struct request *request,
                              const struct call *call)
{
    (void)call;
    struct prepared *text = live_page_get(service->live_page);
    if (text)
        answer_prepared(&request->answer, text);
    else
        answer_problem(&request->answer, PROBLEM_UNAVAILABLE); /* the daemon has just begun */
    return START_ANSWERED;
}

static void work_actions(struct call_worker *worker, struct request **requests, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        json_t *list =
            admin_actions_list(worker->service->admin_actions, stock_redis(worker->stock));
        if (list)
            answer_json(&requests[i]->answer, 200, json_pack("{s:o}", "actions", list));
        else
            answer_problem(&requests[i]->answer, faults_problem(worker->stock));
    }
}

enum call_start call_live_actions(struct service *service, struct request *request,
                                  const struct call *call)
{
    (void)service;
    (void)call;
    return call_send(request, work_actions, false);
}

void call_live_note(struct service *service, const struct request *request, const char *action,
                    const char *format, ...)
{
    char detail[DETAIL_SIZE];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(detail, sizeof detail, format, arguments);
    va_end(arguments);
    const struct admin_action noted = {
        .action = action,
        .sku = request->call.sku,
        .detail = detail,
        .address = call_address(request),
        .status = request->answer.status,
    };
    admin_actions_note(service->admin_actions, &noted);
}

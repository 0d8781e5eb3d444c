/* Chooses the pods that a command asks, where the configuration lists several.
 *
 * why_all: only an operator can resolve two pods with sales of one sku. So every pod is asked for
 * the sku, and a command changes neither of two. */
#include "ctl/pods.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/identifier.h"
#include "ctl/http.h"
#include "ctl/output/answer.h"
#include "ctl/output/say.h"

enum { PATH_SIZE = 160, POD_SHIFT = 8 }; /* see service/request/order_id.h */
static_assert(PODS_MAX == 16, "an order id has 4 bits of its pod");

int pods_find_sku(struct context *context, const char *sku, bool must_be)
{
    char path[PATH_SIZE];
    int status = EX_NOINPUT;
    size_t found = PODS_MAX;
    snprintf(path, sizeof path, "/admin/stock/%s", sku);
    for (size_t pod = context->pods_begin; pod < context->pods_end; pod++) {
        struct reply reply;
        struct call call = {.class = CLASS_ADMIN, .method = "GET", .path = path};
        config_use_pod(&context->config, pod);
        http_call(context->http, &call, &reply);
        bool has = reply.outcome == OUTCOME_OK;
        if (!has && strcmp(reply.code, "unknown_sku") != 0)
            status = REFUSE(answer_status(&reply), "pod %zu does not say whether it has %s: %s",
                            pod, sku, reply.why);
        reply_free(&reply);
        if (has && found < PODS_MAX)
            return REFUSE(EX_REFUSED,
                          "pods %zu and %zu both have %s: --pod says which one is meant", found,
                          pod, sku);
        found = has ? pod : found;
    }
    if (found == PODS_MAX && status == EX_NOINPUT && must_be)
        say("unknown_sku: no pod has a sale of %s", sku);
    if (found == PODS_MAX)
        return status;
    config_use_pod(&context->config, found);
    return EX_OK;
}

static int run_by_sku(const struct command *command, struct context *context)
{
    const char *sku = argument(context, 1);
    if (!identifier_valid(sku, strlen(sku)))
        return command->run(context); /* run() refuses it */
    bool is_new = command->pods == PODS_OF_NEW_SKU;
    int status = pods_find_sku(context, sku, !is_new);
    if (status == EX_NOINPUT && is_new) {
        config_use_pod(&context->config, context->pods_begin);
        status = EX_OK;
    }
    return status == EX_OK ? command->run(context) : status;
}

static int run_each(const struct command *command, struct context *context)
{
    int worst = EX_OK;
    for (size_t pod = context->pods_begin; pod < context->pods_end; pod++) {
        config_use_pod(&context->config, pod);
        if (!has_option(context, OPTION_JSON))
            printf("%spod %zu\n", pod > context->pods_begin ? "\n" : "", pod);
        int status = command->run(context);
        worst = status > worst ? status : worst;
    }
    return worst;
}

size_t pods_of_order(const struct config *config, uint64_t order_id)
{
    size_t pod = (order_id >> POD_SHIFT) % PODS_MAX;
    return pod < config->pod_count ? pod : 0;
}

int pods_run(const struct command *command, struct context *context)
{
    int64_t pod = 0, id = 0;
    size_t count = context->config.pod_count;
    if (!options_number(&context->options, OPTION_POD, 0, (int64_t)count - 1, 0, &pod))
        return EX_USAGE;
    context->pods_begin = (size_t)pod;
    context->pods_end = has_option(context, OPTION_POD) ? (size_t)pod + 1 : count;
    config_use_pod(&context->config, context->pods_begin);
    if (context->pods_end - context->pods_begin <= 1)
        return command->run(context);
    switch (command->pods) {
    case PODS_OF_SKU:
    case PODS_OF_NEW_SKU:
        return run_by_sku(command, context);
    case PODS_OF_ORDER:
        number_parse(argument(context, 1), 1, INT64_MAX, &id);
        config_use_pod(&context->config, pods_of_order(&context->config, (uint64_t)id));
        return command->run(context);
    case PODS_EACH:
        return run_each(command, context);
    default:
        return command->run(context);
    }
}

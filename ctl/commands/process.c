/* Controls daemons, not sales: seckillctl log-level and drain.
 *
 * log-level asks every daemon of the configuration. drain takes one daemon out of the service,
 * which must be named if there are several. */
#include "ctl/commands/commands.h"

#include <stdio.h>
#include <string.h>

#include "ctl/output/answer.h"
#include "ctl/http.h"
#include "ctl/output/table.h"

enum { FOR_S_MAX = 86400, LAME_DUCK_S_MAX = 600 };

/* ---- log-level ---- */

/* Reads the body that sets the level; NULL: show it. False after a message. */
static bool read_level(const struct context *context, json_t **body_out)
{
    const char *level = argument(context, 1);
    int64_t for_s = 0;
    *body_out = NULL;
    if (!options_number(&context->options, OPTION_FOR, 1, FOR_S_MAX, 0, &for_s))
        return false;
    if (!level && for_s > 0)
        return REFUSE(false, "--for needs a level");
    if (!level)
        return true;
    json_t *time = for_s > 0 ? json_integer(for_s) : NULL;
    *body_out = json_pack("{s:s, s:o*}", "level", level, "for_s", time);
    if (!*body_out)
        say("no level is called so");
    return *body_out;
}

int process_log_level(struct context *context)
{
    static const struct column columns[] = {
        {"daemon", "address", CELL_TEXT},
        {"level", "log.level", CELL_TEXT},
        {"for", "log.for_s", CELL_SECONDS},
    };
    json_t *body, *all = json_array();
    int status = read_level(context, &body) ? EX_OK : EX_USAGE;
    for (size_t i = 0; i < context->config.admin_count && status != EX_USAGE; i++) {
        struct reply reply;
        const struct address *address = &context->config.admin[i];
        struct call call = {.class = CLASS_ADMIN,
                            .method = body ? "PUT" : "GET",
                            .path = "/admin/log-level",
                            .body = body,
                            .address = address};
        http_call(context->http, &call, &reply);
        int one = answer_check(context, &reply, NULL);
        if (one == EX_OK)
            json_array_append_new(
                all, json_pack("{s:s, s:O}", "address", address->shown, "log", reply.json));
        else
            status = one;
        reply_free(&reply);
    }
    if (has_option(context, OPTION_JSON) && status != EX_USAGE)
        answer_print(context, all);
    else if (json_array_size(all) > 0)
        TABLE_PRINT(columns, all);
    json_decref(all);
    json_decref(body);
    return status;
}

/* ---- drain ---- */

/* Returns the daemon to drain; NULL after a message. `named` is room for a daemon that the
 * configuration does not have. */
static const struct address *find_daemon(const struct context *context, struct address *named)
{
    const char *name = argument(context, 1);
    if (!name && context->config.admin_count == 1 && context->pods_end - context->pods_begin == 1)
        return &context->config.admin[0];
    if (!name)
        return REFUSE(NULL, "there are several daemons: name the one to drain");
    if (address_parse(name, named))
        return named;
    return REFUSE(NULL, "%s is not an address of a daemon", name);
}

/* Returns the body of the call; NULL after a message. */
static json_t *read_drain(const struct context *context)
{
    int64_t wait_s = -1;
    if (has_option(context, OPTION_UNDO) &&
        (has_option(context, OPTION_STAY) || has_option(context, OPTION_FOR)))
        return REFUSE(NULL, "--undo goes with neither --stay nor --for");
    if (!options_number(&context->options, OPTION_FOR, 0, LAME_DUCK_S_MAX, -1, &wait_s))
        return NULL;
    json_t *ms = wait_s >= 0 ? json_integer(wait_s * 1000) : NULL;
    return json_pack("{s:b, s:o*}", "stop", !has_option(context, OPTION_STAY), "lame_duck_ms", ms);
}

static int confirm_drain(struct context *context, const struct address *address)
{
    if (has_option(context, OPTION_UNDO))
        return EX_OK;
    if (has_option(context, OPTION_STAY))
        return CONFIRM(context,
                       "lets %s say that it is draining, so that balancers send it no "
                       "clients; it serves on until drain --undo or its end",
                       address->shown);
    return CONFIRM(context,
                   "ends the daemon %s, after its time as a lame duck and the requests "
                   "under way",
                   address->shown);
}

static void print_state(const struct address *address, const json_t *answer)
{
    json_int_t ms = answer_integer(answer, "stops_in_ms");
    if (json_object_get(answer, "stops_in_ms"))
        printf("%s is draining, and stops accepting clients in %.1f s\n", address->shown,
               (double)ms / 1000);
    else
        printf("%s is %s\n", address->shown, answer_text(answer, "status"));
}

int process_drain(struct context *context)
{
    struct address named;
    struct reply reply;
    const struct address *address = find_daemon(context, &named);
    json_t *body = address ? read_drain(context) : NULL;
    int status = body ? confirm_drain(context, address) : EX_USAGE;
    if (status != EX_OK) {
        json_decref(body);
        return status;
    }
    bool undo = has_option(context, OPTION_UNDO);
    struct call call = {.class = CLASS_ADMIN,
                        .method = undo ? "DELETE" : "POST",
                        .path = "/admin/drain",
                        .body = undo ? NULL : body,
                        .address = address};
    http_call(context->http, &call, &reply);
    status = answer_check(context, &reply, NULL);
    if (status == EX_OK && has_option(context, OPTION_JSON))
        answer_print(context, reply.json);
    else if (status == EX_OK)
        print_state(address, reply.json);
    reply_free(&reply);
    json_decref(body);
    return status;
}

/* The table of routes: what each takes, who handles it, and which worker carries it. */
#include <assert.h>
#include <string.h>

#include "service/http/http.h"
#include "service/request/unescape.h"

static const struct route routes[] = {
    {"POST", "/order", ROUTE_BUYER, true, CALL_ORDER, call_order_post},
    {"GET", "/order/", ROUTE_BUYER, false, CALL_LOOKUP, call_order_get},
    {"POST", "/order/{id}/pay", ROUTE_SHOP, false, CALL_PAYMENT, call_state_pay},
    {"POST", "/order/{id}/cancel", ROUTE_SHOP, false, CALL_CANCEL, call_state_cancel},
    {"POST", "/order/{id}/refund", ROUTE_SHOP, true, CALL_CANCEL, call_state_refund},
    {"POST", "/order/{id}/unpay", ROUTE_SHOP, true, CALL_CANCEL, call_state_unpay},
    {"POST", "/order/{id}/extend", ROUTE_SHOP, true, CALL_PAYMENT, call_state_extend},
    {"GET", "/events", ROUTE_SHOP, false, CALL_EVENTS, call_events},
    {"GET", "/payments", ROUTE_SHOP, false, CALL_LIST, call_list_payments},
    {"GET", "/stock/", ROUTE_BUYER, false, CALL_LOOKUP, call_stock_get},
    {"POST", "/admin/stock/reset", ROUTE_ADMIN, true, CALL_SALE, call_sale_reset},
    {"POST", "/admin/stock/add", ROUTE_ADMIN, true, CALL_SALE, call_sale_restock},
    {"GET", "/admin/stock/", ROUTE_ADMIN, false, CALL_ADMIN, call_stock_get_exact},
    {"GET", "/user/{user_id}/orders", ROUTE_SHOP, false, CALL_LIST, call_list_user},
    {"GET", "/admin/orders", ROUTE_ADMIN, false, CALL_LISTING, call_list_all},
    {"GET", "/admin/payments", ROUTE_ADMIN, false, CALL_LISTING, call_list_payments},
    {"GET", "/admin/audit", ROUTE_ADMIN, false, CALL_LISTING, call_audit_orders},
    {"GET", "/admin/audit/", ROUTE_ADMIN, false, CALL_LISTING, call_audit_sale},
    {"GET", "/admin/sales", ROUTE_ADMIN, false, CALL_ADMIN, call_sale_list},
    {"PATCH", "/admin/sale/", ROUTE_ADMIN, true, CALL_ADMIN, call_sale_change},
    {"DELETE", "/admin/sale/", ROUTE_ADMIN, false, CALL_SALE, call_sale_retire},
    {"POST", "/admin/reconcile", ROUTE_ADMIN, true, CALL_SALE, call_sale_reconcile},
    {"GET", "/admin/webhooks", ROUTE_ADMIN, false, CALL_ADMIN, call_webhook_list},
    {"GET", "/admin/webhooks/", ROUTE_ADMIN, false, CALL_ADMIN, call_webhook_get},
    {"PUT", "/admin/webhooks/", ROUTE_ADMIN, true, CALL_ADMIN, call_webhook_put},
    {"DELETE", "/admin/webhooks/", ROUTE_ADMIN, false, CALL_ADMIN, call_webhook_delete},
    {"POST", "/admin/webhooks/{webhook}/pause", ROUTE_ADMIN, false, CALL_ADMIN, call_webhook_pause},
    {"POST", "/admin/webhooks/{webhook}/resume", ROUTE_ADMIN, false, CALL_ADMIN,
     call_webhook_resume},
    {"POST", "/admin/webhooks/{webhook}/replay", ROUTE_ADMIN, true, CALL_ADMIN,
     call_webhook_replay},
    {"POST", "/admin/webhooks/{webhook}/test", ROUTE_ADMIN, false, CALL_WEBHOOK, call_webhook_test},
    {"GET", "/admin/webhooks/{webhook}/undelivered", ROUTE_ADMIN, false, CALL_ADMIN,
     call_webhook_undelivered},
    {"POST", "/admin/webhooks/{webhook}/undelivered/replay", ROUTE_ADMIN, true, CALL_ADMIN,
     call_webhook_resend},
    {"POST", "/admin/webhooks/{webhook}/undelivered/discard", ROUTE_ADMIN, true, CALL_ADMIN,
     call_webhook_discard},
    {"GET", "/admin/actions", ROUTE_ADMIN, false, CALL_ADMIN, call_live_actions},
    {"GET", "/admin/log-level", ROUTE_ADMIN, false, CALL_ADMIN, call_process_level_get},
    {"PUT", "/admin/log-level", ROUTE_ADMIN, true, CALL_ADMIN, call_process_level_put},
    {"GET", "/admin/drain", ROUTE_ADMIN, false, CALL_ADMIN, call_process_drain_get},
    {"POST", "/admin/drain", ROUTE_ADMIN, true, CALL_ADMIN, call_process_drain},
    {"DELETE", "/admin/drain", ROUTE_ADMIN, false, CALL_ADMIN, call_process_drain_undo},
    {"GET", "/healthz", ROUTE_OPS, false, CALL_LOOKUP, call_ops_healthz},
    {"GET", "/servingz", ROUTE_OPS, false, CALL_LOOKUP, call_ops_servingz},
    {"GET", "/readyz", ROUTE_OPS, false, CALL_LOOKUP, call_ops_readyz},
    {"GET", "/metrics", ROUTE_OPS, false, CALL_LOOKUP, call_ops_metrics},
    {"GET", "/dashboard", ROUTE_OPS, false, CALL_LOOKUP, call_web_file},
    {"GET", "/dashboard/live", ROUTE_LIVE, false, CALL_LOOKUP, call_live_get},
    {"GET", "/dashboard/{file}", ROUTE_OPS, false, CALL_LOOKUP, call_web_file},
    {"GET", "/demo", ROUTE_BUYER, false, CALL_LOOKUP, call_web_demo},
    {"GET", "/demo/{file}", ROUTE_BUYER, false, CALL_LOOKUP, call_web_demo},
    {"GET", "/openapi.json", ROUTE_OPEN, false, CALL_LOOKUP, call_web_file},
};

/* Without a {name} the whole path is fixed, and the tail follows it. */
size_t route_tail(const struct route *route)
{
    return strcspn(route->path, "{");
}

void route_note_encoding(const char *uri, struct route_path *path_out)
{
    enum { ENCODED = 3 }; /* %XX */
    size_t length = strcspn(uri, "?"), last = length;
    path_out->plain_head = strcspn(uri, "?%");
    for (size_t i = path_out->plain_head; i < length; i++)
        if (uri[i] == '%')
            last = i;
    size_t after = last < length && length - last > ENCODED ? length - last - ENCODED : 0;
    path_out->plain_tail = last == length ? length : after;
}

/* Proxies and browsers remove these from a path. */
static bool is_dots(const char *name, size_t length)
{
    return (length == 1 && name[0] == '.') || (length == 2 && name[0] == '.' && name[1] == '.');
}

/* Only user ids may contain (encoded) slashes. */
static bool may_have_slash(const struct route *route)
{
    static const char name[] = "{user_id}";
    return strncmp(route->path + route_tail(route), name, sizeof name - 1) == 0;
}

/* A {name} stands for exactly one part of the path: a slash ends it. */
static bool path_matches(const struct route *route, const struct route_path *path)
{
    const char *url = path->text;
    size_t head = route_tail(route);
    const char *end = strchr(route->path + head, '}');
    if (!end && route->path[head - 1] != '/')
        return strcmp(url, route->path) == 0 && path->plain_head >= head;
    const char *rest = end ? end + 1 : "";
    if (path->plain_head < head || strncmp(url, route->path, head) != 0)
        return false;
    size_t length = strcspn(url + head, "/");
    if (memchr(url + head, UNESCAPE_SLASH, length) && !may_have_slash(route))
        return false;
    return !is_dots(url + head, length) && strcmp(url + head + length, rest) == 0 &&
           path->plain_tail >= strlen(rest);
}

/* libmicrohttpd leaves the body out of the answer to HEAD. */
static bool method_matches(const struct route *route, const char *method)
{
    return strcmp(route->method, method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

/* Adds a method to the list `before` of a path. Several methods apply to the path of a sale, of a
 * webhook, of a call that controls the daemon, and of a sku named like a call: GET
 * /admin/stock/reset. */
static const char *allow_text(const char *before, const char *method)
{
    static const struct {
        const char *before, *method, *both;
    } several[] = {
        {"PATCH", "DELETE", "DELETE, PATCH"},
        {"GET, HEAD", "GET", "GET, HEAD"}, /* a call among the paths of files */
        {"POST", "GET", "GET, HEAD, POST"},
        {"GET, HEAD", "PUT", "GET, HEAD, PUT"},
        {"GET, HEAD, PUT", "DELETE", "DELETE, GET, HEAD, PUT"},
        {"GET, HEAD", "POST", "GET, HEAD, POST"},
        {"GET, HEAD, POST", "DELETE", "DELETE, GET, HEAD, POST"},
    };
    for (size_t i = 0; before && i < sizeof several / sizeof *several; i++)
        if (strcmp(several[i].before, before) == 0 && strcmp(several[i].method, method) == 0)
            return several[i].both;
    assert(!before);
    return strcmp(method, "GET") == 0 ? "GET, HEAD" : method;
}

const struct route *route_find(unsigned classes, const char *method, const struct route_path *path,
                               enum problem *problem_out, const char **allow_out)
{
    *problem_out = PROBLEM_NOT_FOUND;
    *allow_out = NULL;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (!(classes & ROUTE_BIT(routes[i].class)) || !path_matches(&routes[i], path))
            continue;
        if (method_matches(&routes[i], method)) {
            *problem_out = PROBLEM_NONE;
            return &routes[i];
        }
        *problem_out = PROBLEM_METHOD_NOT_ALLOWED;
        *allow_out = allow_text(*allow_out, routes[i].method);
    }
    return NULL;
}

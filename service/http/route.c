/* The calls there are, and who handles them. */
#include <string.h>

#include "service/http/thread.h"

static const struct route routes[] = {
    {"POST", "/order", false, false, true, LIST_ORDERS, handle_order_post},
    {"GET", "/order/", true, false, false, LIST_CALLS, handle_order_get},
    {"POST", "/order/{id}/pay", true, false, false, LIST_CALLS, handle_order_pay},
    {"POST", "/order/{id}/cancel", true, false, false, LIST_ADMIN, handle_order_cancel},
    {"GET", "/stock/", true, false, false, LIST_CALLS, handle_stock_get},
    {"POST", "/admin/stock/reset", false, true, true, LIST_ADMIN, handle_admin_reset},
    {"POST", "/admin/stock/add", false, true, true, LIST_ADMIN, handle_admin_add},
    {"GET", "/user/{user_id}/orders", true, false, false, LIST_CALLS, handle_user_orders},
    {"GET", "/admin/orders", false, true, false, LIST_ADMIN, handle_admin_orders},
    {"GET", "/admin/orders.csv", false, true, false, LIST_ADMIN, handle_admin_csv},
    {"GET", "/admin/sales", false, true, false, LIST_ADMIN, handle_admin_sales},
    {"PATCH", "/admin/sale/", true, true, true, LIST_ADMIN, handle_admin_sale},
    {"POST", "/admin/reconcile", false, true, true, LIST_ADMIN, handle_admin_reconcile},
    {"GET", "/healthz", false, false, false, LIST_CALLS, handle_healthz},
    {"GET", "/readyz", false, false, false, LIST_CALLS, handle_readyz},
    {"GET", "/metrics", false, false, false, LIST_CALLS, handle_metrics},
    {"GET", "/openapi.json", false, false, false, LIST_CALLS, handle_openapi},
};

size_t route_tail(const struct route *route)
{
    return strcspn(route->path, "{");
}

static bool path_matches(const struct route *route, const char *url)
{
    if (!route->prefix)
        return strcmp(url, route->path) == 0;
    const char *name = route->path + route_tail(route);
    const char *end = strchr(name, '}');
    if (strncmp(url, route->path, route_tail(route)) != 0)
        return false;
    url += route_tail(route);
    return strcmp(url + strcspn(url, "/"), end ? end + 1 : "") == 0;
}

static bool method_matches(const struct route *route, const char *method)
{
    return strcmp(route->method, method) == 0 ||
           (strcmp(method, "HEAD") == 0 && strcmp(route->method, "GET") == 0);
}

const struct route *route_find(const char *method, const char *url, enum problem *problem_out,
                               const char **allow_out)
{
    *problem_out = PROBLEM_NOT_FOUND;
    *allow_out = NULL;
    for (size_t i = 0; i < sizeof routes / sizeof routes[0]; i++) {
        if (!path_matches(&routes[i], url))
            continue;
        if (method_matches(&routes[i], method)) {
            *problem_out = PROBLEM_NONE;
            return &routes[i];
        }
        *problem_out = PROBLEM_METHOD_NOT_ALLOWED;
        *allow_out = strcmp(routes[i].method, "GET") == 0 ? "GET, HEAD" : routes[i].method;
    }
    return NULL;
}

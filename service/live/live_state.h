/* What this daemon says of itself, once a second. */
#ifndef SECKILL_SERVICE_LIVE_LIVE_STATE_H
#define SECKILL_SERVICE_LIVE_LIVE_STATE_H

#include <jansson.h>
#include <stdint.h>

#include "service/live/live_group.h"
#include "service/metrics/rates.h"
#include "service/service.h"

/* The members are for live_state.c alone. One thread uses it. */
struct live_state {
    struct service *service;
    char name[LIVE_NAME_SIZE], address[300];
    int64_t started_ms; /* UTC */
    struct rates rates;
    double cpu_s;
    int64_t at_ns; /* of both */
};

/* `address`: where the daemon serves buyers. Sets the name: host, port and process. */
void live_state_begin(struct live_state *state, struct service *service, const char *address);

/* The daemon's object, without age_ms, for the caller to release; its rates are those since the
 * last call. */
json_t *live_state_take(struct live_state *state, int64_t now_ns);

/* ---- texts of others ---- */

struct json_t;

/* The text as a JSON string for the caller to release; see json_text_clean. Any thread; aborts
 * without memory. */
struct json_t *json_text(const char *text);

#endif

/* Elects one daemon of many for a task. */
#include "service/workers/election.h"

#include <stdio.h>

#include "lock/seclock.h"
#include "service/log/log.h"
#include "service/service.h"

bool election_open(struct election *election, const struct service *service, const char *name,
                   char *error_out, size_t error_size)
{
    const struct config *config = &service->config;
    const char *const servers[] = {config->redis_url, NULL};
    const struct seclock_options options =
        SECLOCK_OPTIONS(.servers = servers, .prefix = STOCK_PREFIX,
                        .lease_ms = (int)config->lease_ms,
                        .timeout_ms = (int)config->redis_timeout_ms);
    election->daemon = node_holder(&service->node);
    if (config->pod > 0)
        snprintf(election->name, sizeof election->name, "%s:%u", name, config->pod);
    else
        snprintf(election->name, sizeof election->name, "%s", name);
    if (seclock_open(&options, &election->locks) == SECLOCK_OK)
        return true;
    snprintf(error_out, error_size, "%s", seclock_error());
    return false;
}

void election_resign(struct election *election)
{
    if (election->held) /* otherwise seclock_error keeps why it is not */
        seclock_resign(election->held);
    seclock_free(&election->held);
}

bool election_held(const struct election *election)
{
    return election->held && seclock_state(election->held) == SECLOCK_STATE_HELD;
}

/* The lock's watchdog renews the lease. */
enum election_result election_hold(struct election *election, const struct election_task *task)
{
    const struct seclock_request request =
        SECLOCK_REQUEST(.name = election->name, .kind = SECLOCK_KIND_SIMPLE);
    if (election_held(election))
        return ELECTION_HELD;
    if (election->held)
        log_event(LOG_WARN, task->lost, "effect=%s", LOG_QUOTE(task->lost_effect));
    election_resign(election);
    enum seclock_result result =
        seclock_campaign(election->locks, &request, election->daemon, &election->held);
    if (result == SECLOCK_OK) {
        log_event(LOG_INFO, task->won, NULL);
        return ELECTION_HELD;
    }
    election_resign(election); /* an election in doubt has a handle, too */
    if (result == SECLOCK_BUSY)
        return ELECTION_OTHER;
    log_failure(LOG_WARN, task->failed, "redis", "error=%s effect=%s", LOG_QUOTE(seclock_error()),
                LOG_QUOTE(task->failed_effect));
    return ELECTION_FAILED;
}

void election_close(struct election *election)
{
    election_resign(election);
    seclock_close(&election->locks);
}

/* Failures of remote servers, reported to clients and logged.
 *
 * why_server_names: a line with each server's last error would blame a server that has long
 * recovered. A server is named only if it failed in the piece of work that the line is about. */
#include "service/request/faults.h"

#include "lua/redis.h"
#include "service/log/log.h"
#include "service/request/trace.h"
#include "sql/events/events.h"

static const char *const names[STOCK_SERVERS] = {
    [STOCK_REDIS] = "redis",
    [STOCK_LEDGER] = "ledger",
    [STOCK_LOCKS] = "locks",
};

void faults_begin(struct stock *stock)
{
    for (int server = 0; server < STOCK_SERVERS; server++)
        fault_clear(stock_fault(stock, (enum stock_server)server));
    stock_held(stock)->count = 0;
}

enum problem faults_problem(struct stock *stock)
{
    bool redis = stock_fault(stock, STOCK_REDIS)->count > 0;
    bool ledger = stock_fault(stock, STOCK_LEDGER)->count > 0;
    bool locks = stock_fault(stock, STOCK_LOCKS)->count > 0;
    bool damaged = stock_fault(stock, STOCK_LEDGER)->damaged;
    return redis && ledger ? PROBLEM_BOTH_UNAVAILABLE
           : damaged       ? PROBLEM_LEDGER_DAMAGED
           : redis         ? PROBLEM_REDIS_UNAVAILABLE
           : ledger        ? PROBLEM_LEDGER_UNAVAILABLE
           : locks         ? PROBLEM_LOCKS_UNAVAILABLE
                           : PROBLEM_UNAVAILABLE;
}

static void log_fault(const char *event, const char *server, const char *place,
                      const struct fault *fault, size_t calls, const char *effect,
                      const struct trace *example)
{
    if (fault->damaged) {
        log_failure(LOG_ERROR, "ledger_damaged", server, "address=%s row=%s calls=%zu effect=%s%s",
                    LOG_QUOTE(place), LOG_QUOTE(fault->error), calls,
                    LOG_QUOTE("calls on this sale or order are answered 503 unavailable, and it is "
                              "left out elsewhere, until the row is mended"),
                    example ? TRACE_LOG(example) : "");
        return;
    }
    log_failure(LOG_WARN, event, server, "address=%s doing=%s error=%s calls=%zu effect=%s%s",
                LOG_QUOTE(place), LOG_QUOTE(fault->doing), LOG_QUOTE(fault->error), calls,
                LOG_QUOTE(effect), example ? TRACE_LOG(example) : "");
}

void faults_log(struct stock *stock, const char *event, size_t calls, const char *effect,
                const struct trace *example)
{
    size_t failed = 0;
    for (int i = 0; i < STOCK_SERVERS; i++) {
        enum stock_server server = (enum stock_server)i;
        const struct fault *fault = stock_fault(stock, server);
        if (fault->count == 0)
            continue;
        log_fault(event, names[i], stock_place(stock, server), fault, calls, effect, example);
        failed++;
    }
    if (failed == 0 && calls > 0)
        log_failure(LOG_WARN, event, "none", "calls=%zu effect=%s%s", calls, LOG_QUOTE(effect),
                    example ? TRACE_LOG(example) : "");
}

void faults_log_recoveries(const struct stock *stock, uint64_t *seen)
{
    uint64_t now = stock_stats(stock).recoveries;
    if (now == *seen)
        return;
    log_failure(LOG_WARN, "segments_recovered", names[STOCK_REDIS],
                "address=%s segments=%llu total=%llu effect=%s", stock_place(stock, STOCK_REDIS),
                (unsigned long long)(now - *seen), (unsigned long long)now,
                LOG_QUOTE("Redis had lost or never settled them; their units were counted again "
                          "from the ledger, and no order is lost"));
    *seen = now;
}

static void log_and_forget(struct fault *fault, enum stock_server server, const char *place,
                           const char *event, const char *effect)
{
    log_fault(event, names[server], place, fault, 0, effect, NULL);
    fault_clear(fault);
}

void faults_log_ledger(struct ledger *ledger, const char *event, const char *effect)
{
    log_and_forget(ledger_fault(ledger), STOCK_LEDGER, ledger_place(ledger), event, effect);
}

void faults_log_redis(struct redis *redis, const char *event, const char *effect)
{
    log_and_forget(redis_fault(redis), STOCK_REDIS, redis_place(redis), event, effect);
}

void faults_log_damage(struct ledger *ledger)
{
    if (ledger_fault(ledger)->damaged)
        faults_log_ledger(ledger, NULL, NULL); /* event and effect are the ones of damage */
}

void faults_log_events(const struct ledger_event_batch *batch, uint64_t position,
                       const char *effect)
{
    log_failure(LOG_ERROR, "event_damaged", "ledger", "batch=%llu position=%llu effect=%s",
                (unsigned long long)batch->id, (unsigned long long)position, LOG_QUOTE(effect));
}

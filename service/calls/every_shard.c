/* Calls that ask the ledgers of all shards. */
#include "service/calls/every_shard.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "service/calls/hop.h"
#include "service/faults.h"
#include "service/workers/health.h"

struct shard_range every_shard_of(const struct call_worker *worker, const char *sku)
{
    int known = sku[0] != '\0' ? service_shard_of_sku(worker->service, sku) : -1;
    return known < 0 ? (struct shard_range){0, worker->service->shard_count, true}
                     : (struct shard_range){(unsigned)known, 1, false};
}

/* A page of a daemon that lists too few ledgers would look complete. */
static bool lists_all(struct call_worker *worker, struct request *request)
{
    unsigned shard = 0;
    enum ledger_result beyond = hop_unlisted(worker, &shard);
    if (beyond == LEDGER_OK)
        hop_answer_unlisted(&request->answer, shard);
    else if (beyond == LEDGER_FAILED)
        answer_problem(&request->answer, every_shard_problem(worker));
    return beyond == LEDGER_NO;
}

bool every_shard_up(struct call_worker *worker, struct shard_range range, struct request *request)
{
    const struct service *service = worker->service;
    int64_t now_ns = clock_now_ns();
    char detail[160];
    for (unsigned n = range.first; n < range.first + range.count; n++) {
        if (service->shard_count == 1 || health_shard_up(service->health, n, now_ns))
            continue;
        snprintf(detail, sizeof detail,
                 "The ledger of shard %u cannot be asked now, and the answer would lack what it "
                 "has; try again later.",
                 n);
        answer_detail(&request->answer, PROBLEM_LEDGER_UNAVAILABLE, detail);
        return false;
    }
    return !range.all || lists_all(worker, request);
}

struct ledger *every_shard_ledger(struct call_worker *worker, unsigned shard)
{
    char error[URL_ERROR_SIZE];
    const struct stock_options *options = &worker->service->shards[shard].stock;
    assert(shard < worker->service->shard_count);
    if (shard == worker->shard->number)
        return stock_ledger(worker->stock);
    if (!worker->others[shard])
        worker->others[shard] =
            ledger_open(options->mysql_url, options->mysql_timeout_ms, error, sizeof error);
    assert(worker->others[shard]); /* the shard's own workers have opened one of this url */
    return worker->others[shard];
}

static bool failed(struct call_worker *worker, unsigned shard)
{
    return worker->others[shard] && ledger_fault(worker->others[shard])->count > 0;
}

enum problem every_shard_problem(struct call_worker *worker)
{
    for (unsigned n = 0; n < SHARDS_MAX; n++)
        if (failed(worker, n))
            return PROBLEM_LEDGER_UNAVAILABLE;
    return faults_problem(worker->stock);
}

void every_shard_begin(struct call_worker *worker)
{
    for (unsigned n = 0; n < SHARDS_MAX; n++)
        if (worker->others[n])
            fault_clear(ledger_fault(worker->others[n]));
}

bool every_shard_log(struct call_worker *worker, const char *event, size_t calls,
                     const char *effect, const struct trace *example)
{
    bool any = false;
    for (unsigned n = 0; n < SHARDS_MAX; n++) {
        if (!failed(worker, n))
            continue;
        faults_log_calls(worker->others[n], event, calls, effect, example);
        any = true;
    }
    return any;
}

void every_shard_close(struct call_worker *worker)
{
    for (unsigned n = 0; n < SHARDS_MAX; n++)
        if (worker->others[n])
            ledger_close(&worker->others[n]);
}

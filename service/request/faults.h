/* Failures of Redis, the ledger and the locks' servers: clients learn the server's name, and the
 * log gets at most one line per second of an event and server. */
#ifndef SECKILL_SERVICE_REQUEST_FAULTS_H
#define SECKILL_SERVICE_REQUEST_FAULTS_H

#include <stddef.h>
#include <stdint.h>

#include "service/request/answer.h"
#include "stock/stock.h"

struct ledger_event_batch;
struct redis;
struct trace;

/* Forgets earlier failures. The stock's thread calls it before each piece of work. */
void faults_begin(struct stock *stock);

/* The problem that refuses a call which could not be carried out: it names the servers that failed
 * since faults_begin, or no server when none did. */
enum problem faults_problem(struct stock *stock);

/* Logs each server that failed since faults_begin: its address, the operation, the error, how many
 * `calls` were affected, `effect` (the consequence for them), and the ids of `example`, one of
 * them, or NULL. With calls > 0 and no failure logs a line with server=none. `event` and `effect`
 * are never freed. A damaged row of the ledger has its own line and effect,
 * event=ledger_damaged. */
void faults_log(struct stock *stock, const char *event, size_t calls, const char *effect,
                const struct trace *example);

/* Logs the segments restored from the ledger since `seen`, and advances `seen`. */
void faults_log_recoveries(const struct stock *stock, uint64_t *seen);

/* Like faults_log, for a thread without a stock: log what failed at its ledger, or at its Redis,
 * and forget it. */
void faults_log_ledger(struct ledger *ledger, const char *event, const char *effect);
void faults_log_redis(struct redis *redis, const char *event, const char *effect);

/* Logs a damaged row found since the last call, although the work went on without it. */
void faults_log_damage(struct ledger *ledger);

/* Logs that a batch of events makes no sense from `position` on. */
void faults_log_events(const struct ledger_event_batch *batch, uint64_t position,
                       const char *effect);

#endif

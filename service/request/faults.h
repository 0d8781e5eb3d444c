/* Failures of Redis, of the ledger and of the locks' servers: told to clients by the server's name,
 * and logged, at most one line per second of a kind and server. */
#ifndef SECKILL_SERVICE_REQUEST_FAULTS_H
#define SECKILL_SERVICE_REQUEST_FAULTS_H

#include <stddef.h>
#include <stdint.h>

#include "service/request/answer.h"
#include "stock/stock.h"

struct redis;
struct trace;

/* Forgets what failed before: for the thread of the stock, before each piece of work. */
void faults_begin(struct stock *stock);

/* The problem to refuse a call by that could not be carried out: it names the servers that failed
 * since faults_begin, or none when none did. */
enum problem faults_problem(struct stock *stock);

/* Writes a line for each server that failed since faults_begin: where it is, what it was at, why it
 * failed, how many `calls` were affected, `effect`, what that means for them, and the ids of
 * `example`, one of them, or NULL. With calls > 0 and no failure a line for server=none. `event`
 * and `effect` are never freed. A row of the ledger that makes no sense has a line and an effect of
 * its own, event=ledger_damaged. */
void faults_log(struct stock *stock, const char *event, size_t calls, const char *effect,
                const struct trace *example);

/* Logs that segments were set again from the ledger since `seen`, and moves `seen` on. */
void faults_log_recoveries(const struct stock *stock, uint64_t *seen);

/* As faults_log for a thread that has no stock: logs what failed at its ledger, or at its Redis,
 * and forgets it. */
void faults_log_ledger(struct ledger *ledger, const char *event, const char *effect);
void faults_log_redis(struct redis *redis, const char *event, const char *effect);

/* Logs a row that made no sense since the last call, though the work went on without it. */
void faults_log_damage(struct ledger *ledger);

#endif

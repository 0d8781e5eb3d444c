/* The ledger's tables at a start: checked, made, upgraded, and what the log says of it. */
#include "service/schema.h"

#include <signal.h>
#include <stdint.h>

#include "service/request/faults.h"
#include "service/log/log.h"
#include "service/supervise.h"
#include "sql/server/server.h"

enum { MIGRATION_NOTE_MS = 5000 };

struct update {
    const struct worker *worker;
    int64_t noted_ms;
};

/* The signals that end the process are blocked. The daemon waits for them where it serves; without
 * a worker nobody does. */
static bool is_told_to_end(const struct update *update)
{
    sigset_t pending;
    if (update->worker)
        return worker_stopping(update->worker);
    return sigpending(&pending) == 0 &&
           (sigismember(&pending, SIGTERM) == 1 || sigismember(&pending, SIGINT) == 1);
}

/* A large table is copied for minutes: the operator sees what the start waits for. */
static bool go_on(const struct ledger_migration *now, void *context)
{
    struct update *update = context;
    if (now->waited_ms < update->noted_ms) /* the next statement */
        update->noted_ms = 0;
    if (now->waited_ms - update->noted_ms >= MIGRATION_NOTE_MS) {
        update->noted_ms = now->waited_ms;
        log_event(LOG_WARN, "migrating", "file=%s seconds=%lld waits_for=%s",
                  now->name ? now->name : "-", (long long)now->waited_ms / 1000,
                  LOG_QUOTE(now->holder ? now->holder : "-"));
        supervise_migrating(now->name ? now->name : "another daemon does", now->waited_ms / 1000);
    }
    return !is_told_to_end(update);
}

enum ledger_result schema_update(struct ledger *ledger, const struct worker *worker)
{
    struct update update = {.worker = worker};
    return ledger_migrate(ledger, go_on, &update);
}

void schema_log_failure(struct ledger *ledger)
{
    faults_log_ledger(ledger, "ledger_not_ready",
                      "orders are refused, 503 unavailable, until the tables are ready");
}

static bool check(struct ledger *ledger)
{
    struct ledger_schema schema;
    enum ledger_result result = ledger_schema_ask(ledger, &schema);
    if (result == LEDGER_NO)
        log_failure(LOG_ERROR, "tables_outdated", "ledger",
                    "address=%s missing=%u of=%u first=%s effect=%s",
                    LOG_QUOTE(ledger_place(ledger)), schema.missing, schema.files, schema.first,
                    LOG_QUOTE("orders are refused, 503 unavailable, until seckilld --migrate has "
                              "run; update_tables is off"));
    else if (result != LEDGER_OK)
        schema_log_failure(ledger);
    return result == LEDGER_OK;
}

bool schema_fits(struct ledger *ledger, char unfit_out[LEDGER_UNFIT_SIZE])
{
    unfit_out[0] = '\0';
    enum ledger_result result = ledger_fit(ledger, unfit_out);
    if (result == LEDGER_NO)
        log_event(
            LOG_ERROR, "ledger_unfit", "address=%s error=%s effect=%s",
            LOG_QUOTE(ledger_server(ledger)), LOG_QUOTE(unfit_out),
            LOG_QUOTE("the daemon does not start: orders could be accepted that must not be"));
    else if (result != LEDGER_OK)
        schema_log_failure(ledger);
    return result == LEDGER_OK;
}

bool schema_prepare(struct ledger *ledger, bool update, const struct worker *worker)
{
    if (!update)
        return check(ledger);
    bool updated = schema_update(ledger, worker) == LEDGER_OK;
    if (!updated)
        schema_log_failure(ledger);
    return updated;
}

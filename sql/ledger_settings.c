/* Changes of a sale's settings while it runs. */
#include "sql/ledger_settings.h"

#include "sql/ledger_query.h"
#include "sql/ledger_time.h"
#include "sql/user_quota.h"

enum {
    RECOUNT_MS_MAX = 120000, /* for reading all orders: some seconds for each million of them */
};

void ledger_settings_text(struct sql_text *sql, const struct ledger_settings *settings)
{
    sql_printf(sql, "starts_at=");
    ledger_time_text(sql, settings->starts_ms);
    sql_printf(sql, ",ends_at=");
    ledger_time_text(sql, settings->ends_ms);
    sql_printf(sql, ",per_user_limit=NULLIF(%u,0),pay_within_s=NULLIF(%u,0),paused=%d,",
               settings->per_user_limit, settings->pay_within_s, settings->paused);
}

struct change {
    struct ledger *ledger;
    const char *sku;
    const struct ledger_settings *settings;
    bool recount;
};

/* The two long statements are queries of their own, because db_set_timeout bounds only the first
 * statement of a query. */
static enum db_result recount(struct db *db, const struct change *change)
{
    struct sql_text *sql = &change->ledger->sql;
    int timeout_ms = db_set_timeout(db, RECOUNT_MS_MAX);
    sql_clear(sql);
    user_quota_text_forget(sql, change->sku);
    enum db_result result = ledger_query(change->ledger);
    sql_clear(sql);
    user_quota_text_recount(sql, change->sku, change->settings->per_user_limit);
    if (result == DB_OK)
        result = ledger_query(change->ledger);
    db_set_timeout(db, timeout_ms);
    return result;
}

/* Updates the sale's row first, so that two changes of one sale wait for each other there. */
static enum db_result change_body(struct db *db, void *context)
{
    const struct change *change = context;
    struct sql_text *sql = &change->ledger->sql;
    uint32_t version = change->settings->version;
    sql_clear(sql);
    sql_printf(sql, "UPDATE sale SET ");
    ledger_settings_text(sql, change->settings);
    sql_printf(sql, "settings_version=%u WHERE settings_version=%u AND sku=", version + 1, version);
    sql_identifier(sql, change->sku);
    sql_printf(sql,
               ";UPDATE stock_segment SET settings_version=%u WHERE settings_version=%u AND sku=",
               version + 1, version);
    sql_identifier(sql, change->sku);
    enum db_result result = ledger_query(change->ledger);
    if (result == DB_OK && db_affected(db, 0) != 1) /* another change of this version came first */
        result = DB_NO;
    return result == DB_OK && change->recount ? recount(db, change) : result;
}

enum ledger_result ledger_settings_change(struct ledger *ledger, const char *sku,
                                          struct ledger_settings *settings, bool recount)
{
    struct change change = {ledger, sku, settings, recount};
    enum ledger_result result = ledger_from_db(db_run(ledger->db, change_body, &change));
    if (result == LEDGER_OK)
        settings->version++;
    return result;
}

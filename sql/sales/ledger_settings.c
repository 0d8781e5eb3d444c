/* Changes of a sale's settings while it runs. */
#include "sql/sales/sales.h"

#include <assert.h>

#include "sql/ledger/ledger_query.h"
#include "sql/ledger/ledger.h"

/* The version of a closed sale's segments. No settings ever have it, even after the restocks that
 * may increment it meanwhile: the ledger accepts no order, whatever process has decided it. */
#define VERSION_CLOSED "2147483648"

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
    bool begins_count;
    bool counting; /* after the change */
};

/* Closes the sale. Once its segments are locked all of its orders are in the ledger, so none has a
 * greater id than the greatest there is. Where nothing is sold there is nothing to count. */
static void text_close(struct sql_text *sql, const char *sku)
{
    sql_printf(sql, "UPDATE stock_segment SET settings_version=" VERSION_CLOSED " WHERE sku=");
    sql_identifier(sql, sku);
    sql_printf(sql, ";INSERT INTO quota_count(sku,round,last_id)SELECT sku,round,"
                    "IF((SELECT SUM(sold)FROM stock_segment g WHERE g.sku=sale.sku)>0,"
                    "(SELECT MAX(order_id)FROM orders),0)FROM sale WHERE sku=");
    sql_identifier(sql, sku);
    sql_printf(sql, " ON DUPLICATE KEY UPDATE round=VALUES(round),counted_to=NULL,"
                    "last_id=VALUES(last_id)");
}

static void text_open(struct sql_text *sql, const char *sku, uint32_t version)
{
    sql_printf(sql, "UPDATE stock_segment SET settings_version=%u WHERE sku=", version);
    sql_identifier(sql, sku);
    sql_printf(sql, ";DELETE FROM quota_count WHERE sku=");
    sql_identifier(sql, sku);
}

/* Updates the sale's row first, so that two changes of one sale wait for each other there. The
 * segments of a sale that goes on being counted are closed already. */
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
    enum db_result result = ledger_query(change->ledger);
    if (result == DB_OK && db_affected(db, 0) != 1) /* another change of this version came first */
        result = DB_NO;
    if (result != DB_OK || (change->counting && !change->begins_count))
        return result;
    sql_clear(sql);
    if (change->begins_count)
        text_close(sql, change->sku);
    else
        text_open(sql, change->sku, version + 1);
    return ledger_query(change->ledger);
}

enum ledger_result ledger_settings_change(struct ledger *ledger, const char *sku,
                                          struct ledger_settings *settings, bool begins_count)
{
    struct change change = {ledger, sku, settings, begins_count, settings->per_user_limit > 0};
    assert(!begins_count || settings->per_user_limit > 0);
    change.counting &= begins_count || settings->counting;
    enum ledger_result result = ledger_from_db(db_run(ledger->db, change_body, &change));
    if (result == LEDGER_OK) {
        settings->version++;
        settings->counting = change.counting;
    }
    return result;
}

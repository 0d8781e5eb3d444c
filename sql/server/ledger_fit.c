/* Whether the ledger's server does what the tables and the statements rely on. */
#include "sql/server/server.h"

#include <stdio.h>
#include <string.h>

#include "sql/ledger/ledger_query.h"

/* No sale has this name: identifiers have no such character. Each connection has a segment of its
 * own, so that daemons that start together do not meet. */
#define PROBE "'#probe'"
#define SEGMENT "CONNECTION_ID()%4294967296"
#define ROW " WHERE sku=" PROBE " AND segment=" SEGMENT

static const struct {
    const char *statement;
    enum db_result result;
    uint64_t rows; /* with DB_OK */
    const char *wrong;
} steps[] = {
    {"INSERT INTO stock_segment(sku,segment,round,capacity,sold,fence,settings_version)"
     "VALUES(" PROBE "," SEGMENT ",1,2,1,0,0)",
     DB_OK, 1, "an INSERT of one row does not count one"},
    {"UPDATE stock_segment SET sold=3" ROW, DB_CHECK, 0,
     "CHECK(sold <= capacity) of stock_segment does not refuse more"},
    {"UPDATE stock_segment SET sold=2,fence=7" ROW " AND fence=0 AND sold+1<=capacity", DB_OK, 1,
     "an UPDATE of one row does not count one"},
    {"UPDATE stock_segment SET sold=2" ROW " AND fence=0", DB_OK, 0,
     "an UPDATE that finds no row counts one"},
    {"UPDATE stock_segment SET sold=2" ROW, DB_OK, 0,
     "an UPDATE that changes nothing counts its row"},
    {"INSERT INTO stock_segment(sku,segment,round,capacity,sold,fence,settings_version)"
     "VALUES(" PROBE "," SEGMENT ",1,2,1,8,0)ON DUPLICATE KEY UPDATE fence=VALUES(fence)",
     DB_OK, 2, "an INSERT that changes the row that is there does not count two"},
    {"INSERT INTO stock_segment(sku,segment,round,capacity,sold,fence,settings_version)"
     "VALUES(" PROBE "," SEGMENT ",1,2,1,8,0)ON DUPLICATE KEY UPDATE fence=VALUES(fence)",
     DB_OK, 0, "an INSERT that changes nothing counts the row that is there"},
    {"INSERT INTO stock_segment(sku,segment,round,capacity,sold,fence,settings_version)"
     "VALUES(" PROBE "," SEGMENT ",1,2,1,0,0)",
     DB_DUPLICATE, 0, "a second row with the same key is not refused"},
    {"INSERT INTO user_quota(sku,round,user_id,units,allowed,order_ids)"
     "VALUES(" PROBE ",1,CONNECTION_ID(),2,1,'')",
     DB_CHECK, 0, "CHECK(units <= allowed) of user_quota does not refuse more"},
};
enum { STEPS = sizeof steps / sizeof steps[0] };

struct probe {
    const char *wrong;
};

/* DB_NO at the end, so that everything is rolled back; DB_FAILED: not known. */
static enum db_result probe_body(struct db *db, void *context)
{
    struct probe *probe = context;
    probe->wrong = NULL;
    for (size_t i = 0; i < STEPS; i++) {
        enum db_result result = db_query(db, steps[i].statement, strlen(steps[i].statement));
        if (result == DB_FAILED || result == DB_SOFT)
            return result;
        bool counted = result != DB_OK || db_affected(db, 0) == steps[i].rows;
        if (result != steps[i].result || !counted) {
            probe->wrong = steps[i].wrong;
            return DB_NO;
        }
    }
    return DB_NO;
}

enum ledger_result ledger_fit(struct ledger *ledger, char why_out[LEDGER_UNFIT_SIZE])
{
    struct probe probe = {.wrong = NULL};
    if (db_run(ledger->db, probe_body, &probe) != DB_NO)
        return LEDGER_FAILED;
    snprintf(why_out, LEDGER_UNFIT_SIZE, "%s", probe.wrong ? probe.wrong : "");
    return probe.wrong ? LEDGER_NO : LEDGER_OK;
}

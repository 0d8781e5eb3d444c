/* The feed of events: gives batches their positions, reads them and deletes old ones. */
#include "sql/events/events.h"

#include <assert.h>
#include <string.h>

#include "sql/events/event_line.h"
#include "sql/ledger/ledger_query.h"
#include "sql/orders/orders.h"
#include "sql/sales/sales.h"

_Static_assert((int)LEDGER_ORDERS_MAX <= (int)LEDGER_EVENTS_MAX, "a commit writes one batch");
_Static_assert((int)LEDGER_RETURNS_MAX <= (int)LEDGER_EVENTS_MAX, "so does a return");

void ledger_events_write(struct ledger *ledger, bool on)
{
    ledger->events = on;
}

/* ---- batches ---- */

#define BATCH_SELECT(body)                                                                         \
    "SELECT id,position,events," LEDGER_MS_OF("written_at") "," body " FROM event_batch "          \
                                                            "FORCE INDEX(position)WHERE "

/* Runs ledger->sql, a BATCH_SELECT. */
static enum ledger_result visit_rows(struct ledger *ledger, ledger_event_visit *visit,
                                     void *context)
{
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db)) {
        const struct ledger_event_batch batch = {
            .id = ledger_u64(row[0]),
            .position = ledger_u64(row[1]),
            .events = ledger_u32(row[2]),
            .written_ms = (int64_t)ledger_u64(row[3]),
            .body = row[4] ? row[4] : "",
            .length = row[4] ? strlen(row[4]) : 0,
        };
        if (ledger_number_valid(row[2], 1, LEDGER_EVENTS_MAX))
            visit(&batch, context);
        else
            ledger_note_damage(ledger, "event_batch: id %s with %s events", row[0], row[2]);
    }
    return LEDGER_OK;
}

/* The index has the rows without a position in front, by their ids. */
enum ledger_result ledger_events_pending(struct ledger *ledger, ledger_event_visit *visit,
                                         void *context)
{
    sql_begin(&ledger->sql, BATCH_SELECT("''") "position=0 ORDER BY id LIMIT %d",
              LEDGER_EVENTS_BATCHES_MAX);
    return visit_rows(ledger, visit, context);
}

/* A batch begins before the event, or with it. The sum stops the reading after enough events. */
enum ledger_result ledger_events_read(struct ledger *ledger, uint64_t position, uint32_t events,
                                      ledger_event_visit *visit, void *context)
{
    sql_begin(
        &ledger->sql,
        BATCH_SELECT(
            "body") "position>=COALESCE("
                    "(SELECT MAX(position)FROM event_batch WHERE position>0 AND position<=%ju),%ju)"
                    "AND position<%ju ORDER BY position LIMIT %d",
        position, position, position + events, LEDGER_EVENTS_BATCHES_MAX);
    return visit_rows(ledger, visit, context);
}

/* ---- the feed's ends ---- */

#define NOW_MS LEDGER_MS_OF("UTC_TIMESTAMP(3)")
#define BEFORE_MS LEDGER_MS_OF("before_at")
#define BATCH_MS                                                                                   \
    "(SELECT " LEDGER_MS_OF("written_at") " FROM event_batch FORCE INDEX(position)WHERE position"

enum ledger_result ledger_events_bounds(struct ledger *ledger,
                                        struct ledger_event_bounds *bounds_out)
{
    char **row;
    enum ledger_result result = ledger_read_row(
        ledger, &row,
        "SELECT oldest,next," NOW_MS "," BATCH_MS "=0 ORDER BY id LIMIT 1)," BEFORE_MS "," BATCH_MS
        ">0 ORDER BY position DESC LIMIT 1)FROM event_feed WHERE one=1");
    if (result != LEDGER_OK)
        return LEDGER_FAILED;
    *bounds_out = (struct ledger_event_bounds){
        .oldest = ledger_u64(row[0]),
        .next = ledger_u64(row[1]),
        .now_ms = (int64_t)ledger_u64(row[2]),
        .waiting_ms = (int64_t)ledger_u64(row[3]),
        .before_ms = (int64_t)ledger_u64(row[4]),
        .last_ms = (int64_t)ledger_u64(row[row[5] ? 5 : 4]),
    };
    return LEDGER_OK;
}

/* ---- sales ---- */

enum ledger_result ledger_event_sales(struct ledger *ledger, struct ledger_event_sale *sales,
                                      size_t count)
{
    struct sql_text *sql = &ledger->sql;
    assert(count > 0 && count <= LEDGER_STOCK_SKUS_MAX);
    sql_begin(sql, "SELECT sku,round,settings_version,sold_out FROM event_sale WHERE sku IN(");
    for (size_t i = 0; i < count; i++) {
        sql_printf(sql, i == 0 ? "%s" : ",%s", sales[i].sku);
        sales[i].round = sales[i].settings_version = 0;
        sales[i].sold_out = false;
    }
    sql_append(sql, ")", 1);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db))
        for (size_t i = 0; i < count; i++) {
            if (!row[0] || strcmp(row[0], sales[i].sku) != 0)
                continue;
            sales[i].round = ledger_u32(row[1]);
            sales[i].settings_version = ledger_u32(row[2]);
            sales[i].sold_out = ledger_u32(row[3]) != 0;
        }
    return LEDGER_OK;
}

enum ledger_result ledger_event_sales_retired(struct ledger *ledger, size_t max,
                                              struct ledger_event_sale *sales_out,
                                              size_t *count_out)
{
    *count_out = 0;
    sql_begin(&ledger->sql,
              "SELECT e.sku FROM event_sale e LEFT JOIN sale s ON s.sku=e.sku "
              "WHERE s.sku IS NULL AND e.round<>0 LIMIT %ju",
              (uintmax_t)max);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row && *count_out < max; row = db_row(ledger->db)) {
        struct ledger_event_sale *sale = &sales_out[*count_out];
        *sale = (struct ledger_event_sale){.round = 0};
        *count_out += ledger_identifier_read(sale->sku, row[0]);
    }
    return LEDGER_OK;
}

/* ---- placing ---- */

/* Returns the number of events that get positions. */
static uint64_t count_events(const struct ledger_placing *placing)
{
    uint64_t events = placing->sale_event_count;
    for (size_t i = 0; i < placing->batch_count; i++)
        events += placing->batches[i].events;
    return events;
}

/* Finds the batches by their ids: along the index of positions it would wait for batches that are
 * being written. A server that lost what was not on its disk gives an id again, so the numbers of
 * events must be the same, too. Returns the position behind them. */
static uint64_t text_batches(struct sql_text *sql, const struct ledger_placing *placing)
{
    uint64_t position = placing->next;
    if (placing->batch_count == 0)
        return position;
    sql_printf(sql, "UPDATE event_batch FORCE INDEX(PRIMARY)SET position=CASE id");
    for (size_t i = 0; i < placing->batch_count; i++) {
        sql_printf(sql, " WHEN %ju THEN %ju", placing->batches[i].id, position);
        position += placing->batches[i].events;
    }
    sql_printf(sql, " END WHERE position=0 AND events=CASE id");
    for (size_t i = 0; i < placing->batch_count; i++)
        sql_printf(sql, " WHEN %ju THEN %u", placing->batches[i].id, placing->batches[i].events);
    sql_printf(sql, " END AND id IN");
    for (size_t i = 0; i < placing->batch_count; i++)
        sql_printf(sql, i == 0 ? "(%ju" : ",%ju", placing->batches[i].id);
    sql_append(sql, ");", 2);
    return position;
}

static void text_sales(struct sql_text *sql, const struct ledger_placing *placing,
                       uint64_t position)
{
    if (placing->sale_event_count > 0) {
        sql_printf(sql,
                   "INSERT INTO event_batch(position,events,written_at,body)"
                   "VALUES(%ju,%ju,UTC_TIMESTAMP(3),'",
                   position, (uintmax_t)placing->sale_event_count);
        for (size_t i = 0; i < placing->sale_event_count; i++) {
            sql_append(sql, "\n", i > 0);
            event_text_sale(sql, &placing->sale_events[i]);
        }
        sql_append(sql, "');", 3);
    }
    for (size_t i = 0; i < placing->sale_count; i++)
        sql_printf(sql,
                   "REPLACE INTO event_sale(sku,round,settings_version,sold_out)"
                   "VALUES(%s,%u,%u,%d);",
                   placing->sales[i].sku, placing->sales[i].round,
                   placing->sales[i].settings_version, placing->sales[i].sold_out);
}

/* The feed's row comes first, so that publishers take turns there. */
static enum db_result place(struct ledger *ledger, const struct ledger_placing *placing)
{
    struct sql_text *sql = &ledger->sql;
    sql_begin(sql, "UPDATE event_feed SET next=next+%ju WHERE one=1 AND next=%ju;",
              count_events(placing), placing->next);
    text_sales(sql, placing, text_batches(sql, placing));
    enum db_result result = ledger_query(ledger);
    if (result != DB_OK)
        return result;
    bool first = db_affected(ledger->db, 0) == 1;
    bool all = placing->batch_count == 0 || db_affected(ledger->db, 1) == placing->batch_count;
    return first && all ? DB_OK : DB_NO;
}

enum ledger_result ledger_events_place(struct ledger *ledger, const struct ledger_placing *placing)
{
    struct db_run run = {0};
    assert(placing->batch_count <= LEDGER_EVENTS_BATCHES_MAX && count_events(placing) > 0);
    while (db_run(ledger->db, &run))
        run.result = place(ledger, placing);
    return ledger_from_db(run.result);
}

/* ---- retention ---- */

/* Reads the end of the range first, so that the DELETE has a range of positions and locks nothing
 * beyond it. */
static enum db_result purge(struct ledger *ledger, unsigned hours, unsigned batches,
                            uint32_t *deleted_out)
{
    char **row;
    *deleted_out = 0;
    enum db_result result = ledger_do_row(
        ledger, &row,
        "SELECT MAX(position),COUNT(*),MAX(position+events)FROM(SELECT position,events,written_at "
        "FROM event_batch FORCE INDEX(position)WHERE position>0 ORDER BY position LIMIT %u)b "
        "WHERE written_at<UTC_TIMESTAMP(3)-INTERVAL %u HOUR",
        batches, hours);
    if (result != DB_OK || !row[0])
        return result;
    uint64_t last = ledger_u64(row[0]), oldest = ledger_u64(row[2]);
    *deleted_out = ledger_u32(row[1]);
    return ledger_do(ledger,
                     "UPDATE event_feed SET oldest=%ju,before_at="
                     "(SELECT written_at FROM event_batch WHERE position=%ju LIMIT 1)"
                     "WHERE one=1 AND oldest<%ju;"
                     "DELETE b FROM event_batch b FORCE INDEX(position)"
                     "WHERE position>0 AND position<=%ju",
                     oldest, last, oldest, last);
}

enum ledger_result ledger_events_purge(struct ledger *ledger, unsigned hours, unsigned batches,
                                       uint32_t *deleted_out)
{
    struct db_run run = {0};
    while (db_run(ledger->db, &run))
        run.result = purge(ledger, hours, batches, deleted_out);
    if (run.result != DB_OK)
        *deleted_out = 0;
    return ledger_from_db(run.result);
}

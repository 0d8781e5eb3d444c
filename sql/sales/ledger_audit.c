/* Adds up orders, page by page along their ids, and the units counted for users, for audits. */
#include "sql/sales/sales.h"

#include <stdio.h>

#include "sql/ledger/ledger_query.h"
#include "sql/orders/orders.h"

/* A purge deletes an order's key when its round is long over (ledger_purge.c). */
#define KEPT                                                                                       \
    "NOT EXISTS(SELECT 1 FROM sale_round r WHERE r.sku=o.sku AND r.round=o.round "                 \
    "AND(r.step<>'keys' OR r.purged_to>0))"

/* Reads orders first, along their primary key: another join order would read the whole table. */
#define ORDERS "FROM orders o FORCE INDEX(PRIMARY)"
#define SALE "JOIN sale s ON s.sku=o.sku "
#define ROUND SALE "AND s.round=o.round "

#define PAYMENT "JOIN payment p ON p.order_id=o.order_id "

#define HAS(states)                                                                                \
    "EXISTS(SELECT 1 FROM payment f WHERE f.order_id=o.order_id AND f.state IN(" states ")"

/* A paid order has one payment at most that is taken, others have none. One that has paid its order
 * is never due; it is refunded with the order, unless another pays that, or has failed since.
 * refund_due has just those that are due, and an order is refunded by a payment. */
/* clang-format off */
#define CONTRADICTS                                                                                \
    "((p.state='taken' AND(o.status<>'paid' OR " HAS("'taken'") "AND f.payment_ref<>p.payment_ref" \
    ")))OR(p.outcome IN('in_time','retaken')AND(p.state='refund_due' OR(p.state='refunded' AND "   \
    "o.status<>'refunded' AND NOT " HAS("'taken','failed'") "))))OR(p.state='refund_due')<>EXISTS" \
    "(SELECT 1 FROM refund_due d WHERE d.order_id=p.order_id AND d.payment_ref=p.payment_ref)OR"   \
    "(o.status='refunded' AND NOT " HAS("'refunded'") ")))"
/* clang-format on */

/* Each SELECT up to its condition on the ids, and from there on. */
static const struct {
    const char *head, *tail;
} parts[] = {
    [LEDGER_AUDIT_ORDERS] = {"SELECT STRAIGHT_JOIN 0,o.sku,s.round,o.status,COUNT(*),"
                             "SUM(" LEDGER_UNITS_HELD "),"
                             "SUM(" LEDGER_UNITS_HELD "*CRC32(o.user_id)),"
                             "SUM(COALESCE(unreturned,0))" ORDERS ROUND "WHERE ",
                             "GROUP BY o.sku,s.round,o.status"},
    [LEDGER_AUDIT_UNKEYED] = {"SELECT STRAIGHT_JOIN 1,o.sku,s.round,'',COUNT(*),0,0,0 " ORDERS SALE
                              "LEFT JOIN order_key k ON k.user_id=o.user_id "
                              "AND k.idempotency_key=" LEDGER_KEY_OF_ORDER " "
                              "WHERE(k.order_id IS NULL OR k.order_id<>o.order_id)AND " KEPT "AND ",
                              "GROUP BY o.sku,s.round"},
    [LEDGER_AUDIT_UNLISTED] = {"SELECT STRAIGHT_JOIN 2,o.sku,s.round,'',COUNT(*),0,0,0 " ORDERS SALE
                               "LEFT JOIN order_expiry e ON e.expires_at="
                               "o.expires_at+INTERVAL COALESCE(o.grace_s,0)SECOND "
                               "AND o.order_id BETWEEN e.first_id AND e.last_id "
                               "WHERE o.status='reserved' AND o.expires_at IS NOT NULL "
                               "AND e.first_id IS NULL AND ",
                               "GROUP BY o.sku,s.round"},
    [LEDGER_AUDIT_PAYMENTS] = {"SELECT STRAIGHT_JOIN 3,o.sku,s.round,p.state,COUNT(*),0,0,0 " ORDERS
                                   SALE PAYMENT "WHERE ",
                               "GROUP BY o.sku,s.round,p.state"},
    [LEDGER_AUDIT_UNMATCHED] = {"SELECT STRAIGHT_JOIN 4,o.sku,s.round,'',COUNT(DISTINCT "
                                "o.order_id),0,0,0 " ORDERS SALE "LEFT " PAYMENT
                                "WHERE " CONTRADICTS "AND ",
                                "GROUP BY o.sku,s.round"},
};
enum { PARTS = sizeof parts / sizeof parts[0] };

static void text_sums(struct sql_text *sql, const char *sku, uint64_t after, uint64_t end)
{
    sql_clear(sql);
    for (size_t i = 0; i < PARTS; i++) {
        sql_printf(sql, "%-s%-so.order_id>%ju AND o.order_id<=%ju ", i == 0 ? "" : " UNION ALL ",
                   parts[i].head, after, end);
        if (*sku != '\0')
            sql_printf(sql, "AND o.sku=%s ", sku);
        sql_printf(sql, "%-s", parts[i].tail);
    }
}

enum ledger_result ledger_audit_end(struct ledger *ledger, uint64_t after, uint64_t *end_out)
{
    return ledger_from_db(ledger_piece_end(ledger, ledger_read, after, LEDGER_AUDIT_ROWS, end_out));
}

static void read_sum(struct ledger_audit_sum *sum, char **row)
{
    *sum = (struct ledger_audit_sum){.kind = (enum ledger_audit_kind)ledger_u32(row[0])};
    ledger_identifier(sum->sku, row[1]);
    sum->round = ledger_u32(row[2]);
    snprintf(sum->status, sizeof sum->status, "%s", row[3] ? row[3] : "");
    sum->orders = ledger_u64(row[4]);
    sum->units = ledger_u64(row[5]);
    sum->weighed = ledger_u64(row[6]);
    sum->unreturned = ledger_u64(row[7]);
}

enum ledger_result ledger_audit_orders(struct ledger *ledger, const char *sku, uint64_t after,
                                       uint64_t end, ledger_audit_visit *visit, void *context)
{
    struct ledger_audit_sum sum;
    text_sums(&ledger->sql, sku, after, end);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db)) {
        read_sum(&sum, row);
        visit(&sum, context);
    }
    return LEDGER_OK;
}

enum ledger_result ledger_audit_users(struct ledger *ledger, const char *sku, uint32_t round,
                                      const char *after, struct ledger_audit_users *users_out)
{
    struct sql_text *sql = &ledger->sql;
    *users_out = (struct ledger_audit_users){.users = 0};
    sql_begin(sql,
              "SELECT COUNT(*),SUM(units),SUM(units*CRC32(user_id)),SUM(units>allowed),"
              "MAX(user_id)FROM(SELECT user_id,units,allowed FROM user_quota WHERE sku=%s "
              "AND round=%u",
              sku, round);
    if (*after != '\0')
        sql_printf(sql, " AND user_id>%s", after);
    sql_printf(sql, " ORDER BY user_id LIMIT %d)q", LEDGER_AUDIT_ROWS);
    char **row = ledger_read(ledger) == DB_OK ? db_row(ledger->db) : NULL;
    if (!row)
        return LEDGER_FAILED;
    users_out->users = ledger_u64(row[0]);
    users_out->units = ledger_u64(row[1]);
    users_out->weighed = ledger_u64(row[2]);
    users_out->above = ledger_u64(row[3]);
    if (users_out->users == LEDGER_AUDIT_ROWS)
        ledger_user_id(users_out->next, row[4]);
    return LEDGER_OK;
}

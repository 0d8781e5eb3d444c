/* Finds orders by their ids and keys. */
#include "sql/orders/orders.h"

#include <string.h>

#include "sql/ledger/ledger_query.h"
#include "sql/orders/order_set.h"

/* A key may have been asked for more than once; each of its entries gets the order. */
static void read_key(struct ledger_key *keys, size_t count, char **row)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(keys[i].user_id, row[1]) == 0 && strcmp(keys[i].key, row[2]) == 0)
            keys[i].order_id = ledger_u64(row[0]);
}

/* why_uncommitted: InnoDB shows such a read the newest version of each row, committed or not. A
 * locking read would tell as much, but wait for the transaction that has written the key and hold
 * up every other order of the batch. The level is for the next transaction, the SELECT. */
enum ledger_result ledger_keys_find(struct ledger *ledger, struct ledger_key *keys, size_t count)
{
    struct sql_text *sql = &ledger->sql;
    /* A list of pairs costs the server less than half of what the same pairs joined by OR cost. */
    sql_begin(sql, "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED;"
                   "SELECT order_id,user_id,idempotency_key FROM order_key "
                   "FORCE INDEX(PRIMARY)WHERE(user_id,idempotency_key)IN(");
    for (size_t i = 0; i < count; i++) {
        keys[i].order_id = 0;
        sql_printf(sql, i == 0 ? "(%s,%s)" : ",(%s,%s)", keys[i].user_id, keys[i].key);
    }
    sql_append(sql, ")", 1);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db))
        read_key(keys, count, row);
    return LEDGER_OK;
}

enum ledger_result ledger_orders_find(struct ledger *ledger, struct ledger_record *const *records,
                                      size_t count)
{
    struct order_set set;
    order_set_init(&set, records, count);
    sql_clear(&ledger->sql);
    return order_set_fetch(&set, ledger, ledger_read) == DB_OK ? LEDGER_OK : LEDGER_FAILED;
}

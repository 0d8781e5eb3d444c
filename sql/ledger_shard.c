/* Which shard a ledger is, and on which shard each sku is.
 *
 * why_claimed_first: the directory's row is written before the sale is created, and never changed.
 * So two daemons that create one sale at the same time ask the same row and go to the same ledger,
 * where the sale's own row makes one of them the first. Whoever dies between the two leaves a row
 * and no sale, which is harmless: the next creation of the sku goes to the same shard.
 *
 * why_for_ever: a retired sku keeps its row. Its rounds count on and its orders, quotas and keys
 * stay together, all in one ledger; were it to begin anew on another, round 1 of the one would be
 * taken for round 1 of the other. And no step needs two ledgers to change at once.
 *
 * why_a_write: each question changes the row, although only the first decides. InnoDB shows a row
 * to others before it is on the disk; a commit of one's own comes back only after it is. Else a
 * daemon could create a sale by a row that a crash of shard 0 takes away. */
#include "sql/ledger_shard.h"

#include <assert.h>
#include <string.h>

#include "sql/ledger_query.h"

static enum ledger_result find_number(struct ledger *ledger, unsigned *number_out)
{
    sql_clear(&ledger->sql);
    sql_printf(&ledger->sql, "SELECT number FROM ledger_shard");
    return ledger_read_number(ledger, number_out);
}

/* Daemons that start together may insert at once: then the first one's row stays. */
static enum ledger_result give_number(struct ledger *ledger, unsigned number, unsigned *found_out)
{
    sql_clear(&ledger->sql);
    sql_printf(&ledger->sql,
               "INSERT IGNORE INTO ledger_shard(number)VALUES(IF(EXISTS(SELECT 1 FROM sale)OR "
               "EXISTS(SELECT 1 FROM sale_round),0,%u));SELECT number FROM ledger_shard",
               number);
    enum ledger_result result = ledger_read_number(ledger, found_out);
    return result == LEDGER_NO ? LEDGER_FAILED : result;
}

enum ledger_result ledger_shard_claim(struct ledger *ledger, unsigned number, unsigned *found_out)
{
    enum ledger_result result = find_number(ledger, found_out);
    if (result == LEDGER_NO)
        result = give_number(ledger, number, found_out);
    return result == LEDGER_OK && *found_out != number ? LEDGER_NO : result;
}

enum ledger_result ledger_sku_claim(struct ledger *ledger, const char *sku, unsigned wanted,
                                    unsigned *shard_out)
{
    struct sql_text *sql = &ledger->sql;
    sql_clear(sql);
    sql_printf(sql, "INSERT INTO sale_shard(sku,shard)VALUES(");
    sql_identifier(sql, sku);
    sql_printf(sql, ",IF(EXISTS(SELECT 1 FROM sale WHERE sku=");
    sql_identifier(sql, sku);
    sql_printf(sql, ")OR EXISTS(SELECT 1 FROM sale_round WHERE sku=");
    sql_identifier(sql, sku);
    sql_printf(sql, "),0,%u))ON DUPLICATE KEY UPDATE asked=(asked+1)%%1000000;", wanted);
    sql_printf(sql, "SELECT shard FROM sale_shard WHERE sku=");
    sql_identifier(sql, sku);
    enum ledger_result result = ledger_read_number(ledger, shard_out);
    return result == LEDGER_NO ? LEDGER_FAILED : result;
}

enum ledger_result ledger_skus_look_up(struct ledger *ledger, struct ledger_sku_place *places,
                                       size_t count)
{
    assert(count > 0 && count <= LEDGER_ORDERS_MAX);
    sql_clear(&ledger->sql);
    sql_printf(&ledger->sql, "SELECT sku,shard FROM sale_shard WHERE sku IN");
    for (size_t i = 0; i < count; i++) {
        sql_append(&ledger->sql, i == 0 ? "(" : ",", 1);
        sql_identifier(&ledger->sql, places[i].sku);
        places[i].shard = -1;
    }
    sql_append(&ledger->sql, ")", 1);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db))
        for (size_t i = 0; i < count; i++)
            if (row[0] && strcmp(row[0], places[i].sku) == 0)
                places[i].shard = (int)ledger_u32(row[1]);
    return LEDGER_OK;
}

enum ledger_result ledger_shard_beyond(struct ledger *ledger, unsigned count, unsigned *shard_out)
{
    sql_clear(&ledger->sql);
    sql_printf(&ledger->sql, "SELECT shard FROM sale_shard WHERE shard>=%u LIMIT 1", count);
    return ledger_read_number(ledger, shard_out);
}

/* FNV-1a: skus that differ in one digit spread well. */
unsigned ledger_sku_default(const char *sku, unsigned count)
{
    uint32_t hash = 2166136261U;
    assert(count > 0);
    for (; *sku; sku++)
        hash = (hash ^ (unsigned char)*sku) * 16777619U;
    return (hash ^ hash >> 16) % count;
}

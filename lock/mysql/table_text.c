/* Writes the statements of the table lock. */
#include "lock/mysql/table_text.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "lock/mysql/pool.h"

/* one_statement_decides: each change is one UPDATE by primary key whose WHERE holds all conditions,
 * by the server's clock, in a transaction of its own. The SELECT behind it, in the same packet,
 * only reads how the row looks now. Column assignments use no column that stands to their left, so
 * that every order of evaluation gives the same.
 *
 * each_hold_by_its_request: `request_id` lists the requests whose holds the owner has now,
 * `release_id` the last requests that were released. A repeated request finds itself in one of
 * them, and is not counted again. */

enum { RELEASES_SIZE = 640 }; /* bytes of release_id: at least the last eight */

/* " FIND_IN_SET" of a request in a column that lists requests. */
static void in_list(struct sql_text *sql, const char *request, const char *column)
{
    mysql_raw(sql, " FIND_IN_SET(");
    mysql_literal(sql, request);
    sql_printf(sql, ",%s)", column);
}

void table_select_text(const char *prefix, const char *name, const char *request,
                       struct sql_text *sql)
{
    mysql_raw(sql, "SELECT owner,");
    in_list(sql, request, "request_id");
    mysql_raw(sql, ",");
    in_list(sql, request, "release_id");
    mysql_raw(sql, ",fence,hold_count,IF(hold_count=0,0,CEIL(GREATEST("
                   "TIMESTAMPDIFF(MICROSECOND,NOW(6),expires_at),0)/1000)) "
                   "FROM distributed_lock WHERE name=");
    mysql_key(sql, prefix, name);
}

static void lease_literal(struct sql_text *sql, int lease_ms)
{
    assert(lease_ms > 0);
    sql_printf(sql, "(NOW(6)+INTERVAL %d000 MICROSECOND)", lease_ms);
}

/* "IF(" this owner holds the lock ",". */
static void if_mine(const struct seclock_handle *handle, struct sql_text *sql)
{
    mysql_raw(sql, "IF(owner<=>");
    mysql_literal(sql, handle->owner);
    mysql_raw(sql, " AND expires_at>NOW(6),");
}

static void list_item(struct sql_text *sql, const char *request)
{
    assert(request[0] != '\0' && !strchr(request, ','));
    char item[SECLOCK_TOKEN_MAX + 1];
    snprintf(item, sizeof item, "%s,", request);
    mysql_literal(sql, item);
}

/* Takes a row that is free or expired, with a new fence; or once more for its owner, with the old
 * fence and at least the old lease. A repeat of the same request renews the lease and is not
 * counted again: a caller whose earlier tries were not answered counts the lease from this one. */
void table_acquire_text(const char *prefix, const struct seclock_handle *handle,
                        struct sql_text *sql)
{
    mysql_raw(sql, "UPDATE distributed_lock SET fence=");
    if_mine(handle, sql);
    mysql_raw(sql, "fence,GREATEST(fence+1,CAST(UNIX_TIMESTAMP(NOW(6))*1000000 AS UNSIGNED))),"
                   "hold_count=");
    if_mine(handle, sql);
    mysql_raw(sql, "hold_count+(");
    in_list(sql, handle->request, "request_id");
    mysql_raw(sql, "=0),1),request_id=CONCAT(");
    if_mine(handle, sql);
    mysql_raw(sql, "REPLACE(request_id,");
    list_item(sql, handle->request);
    mysql_raw(sql, ",''),''),");
    list_item(sql, handle->request);
    mysql_raw(sql, "),expires_at=");
    if_mine(handle, sql);
    mysql_raw(sql, "GREATEST(expires_at,");
    lease_literal(sql, handle->lease_ms);
    mysql_raw(sql, "),");
    lease_literal(sql, handle->lease_ms);
    mysql_raw(sql, "),owner=");
    mysql_literal(sql, handle->owner);
    mysql_raw(sql, " WHERE name=");
    mysql_key(sql, prefix, handle->name);
    mysql_raw(sql, " AND(hold_count=0 OR expires_at<=NOW(6) OR owner=");
    mysql_literal(sql, handle->owner);
    mysql_raw(sql, ");");
}

/* " WHERE" the row has the hold. Once anybody has taken the lock after the lease had ended, the
 * same owner included, the request is no more in the list, and the hold is lost for good. */
static void where_held(const char *prefix, const struct seclock_handle *handle,
                       struct sql_text *sql)
{
    mysql_raw(sql, " WHERE name=");
    mysql_key(sql, prefix, handle->name);
    mysql_raw(sql, " AND hold_count>0 AND expires_at>NOW(6) AND");
    in_list(sql, handle->request, "request_id");
}

/* why_a_counter: the server counts only rows that change, and a lease need not: so each renewal
 * adds to a counter, and the number of rows tells whether the hold was there. Several renewals
 * share a transaction, and so one write to the disk. */
void table_renew_text(const char *prefix, struct seclock_handle *const *handles, size_t count,
                      struct sql_text *sql)
{
    assert(count > 0);
    if (count > 1)
        mysql_raw(sql, "START TRANSACTION;");
    for (size_t i = 0; i < count; i++) {
        mysql_raw(sql, "UPDATE distributed_lock SET renewals=renewals+1,expires_at="
                       "GREATEST(expires_at,");
        lease_literal(sql, handles[i]->lease_ms);
        mysql_raw(sql, ")");
        where_held(prefix, handles[i], sql);
        if (count > 1)
            mysql_raw(sql, ";");
    }
    if (count > 1)
        mysql_raw(sql, "COMMIT");
}

void table_release_text(const char *prefix, const struct seclock_handle *handle,
                        struct sql_text *sql)
{
    mysql_raw(sql, "UPDATE distributed_lock SET owner=IF(hold_count>1,owner,NULL),"
                   "expires_at=IF(hold_count>1,expires_at,NOW(6)),hold_count=hold_count-1,"
                   "release_id=LEFT(CONCAT(");
    list_item(sql, handle->request);
    sql_printf(sql, ",IFNULL(release_id,'')),%d),request_id=REPLACE(request_id,", RELEASES_SIZE);
    list_item(sql, handle->request);
    mysql_raw(sql, ",'')");
    where_held(prefix, handle, sql);
    mysql_raw(sql, ";");
}

void table_break_text(const char *prefix, const char *name, struct sql_text *sql)
{
    mysql_raw(sql, "UPDATE distributed_lock SET owner=NULL,hold_count=0,request_id=NULL,"
                   "expires_at=NOW(6) WHERE hold_count>0 AND expires_at>NOW(6) AND name=");
    mysql_key(sql, prefix, name);
    mysql_raw(sql, ";");
}

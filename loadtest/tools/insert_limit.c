/* Inserts rows as orders do, as fast as one connection can, an fsync for each transaction.
 *
 * usage: insert_limit MYSQL_URL ROWS_PER_TRANSACTION SECONDS
 *
 * The rows go to a table of the same shape beside the ledger, which is dropped in the end. Nothing
 * else is done with them: no segment, no lock, no customer. Ends with one line of JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "sql/db/db.h"

enum { ROWS_MAX = 4096, ROW_SIZE = 160, TIMEOUT_MS = 30000 };

static char text[(ROWS_MAX + 2) * ROW_SIZE];
static size_t text_length;
static unsigned table; /* several may run at a time */

static double now_s(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void die(const char *what, const char *why)
{
    fprintf(stderr, "insert_limit: %s: %s\n", what, why);
    exit(1);
}

static void must(struct db *db, const char *format)
{
    char statement[128];
    int length = snprintf(statement, sizeof statement, format, table); /* all formats name it */
    if (db_query(db, statement, (size_t)length) != DB_OK)
        die(statement, db_error(db));
}

static void write_rows(unsigned long long first, int rows)
{
    static unsigned seed = 1;
    char *end = text;
    end += sprintf(end,
                   "INSERT INTO insert_limit_%u(order_id,sku,round,user_id,qty,segment,"
                   "idempotency_key,created_at)VALUES",
                   table);
    for (int i = 0; i < rows; i++)
        end += snprintf(end, ROW_SIZE, "%s(%llu,'limit',1,'u%u',1,%d,NULL,'%s')", i ? "," : "",
                        first + (unsigned)i, (unsigned)rand_r(&seed) % 1000000, i % 20,
                        "2026-11-20 21:58:53.255");
    text_length = (size_t)(end - text);
}

int main(int argc, char **argv)
{
    char error[256];
    int rows = argc == 4 ? (int)strtol(argv[2], NULL, 10) : 0;
    double seconds = argc == 4 ? strtod(argv[3], NULL) : 0;

    if (rows < 1 || rows > ROWS_MAX || seconds <= 0) {
        fprintf(stderr, "usage: insert_limit MYSQL_URL ROWS_PER_TRANSACTION SECONDS\n");
        return 2;
    }
    table = (unsigned)getpid();
    struct db *db = db_open(argv[1], TIMEOUT_MS, error, sizeof error);
    if (db == NULL)
        die("url", error);
    if (db_connect(db) != DB_OK)
        die("connect", db_error(db));
    must(db, "DROP TABLE IF EXISTS insert_limit_%u");
    must(db, "CREATE TABLE insert_limit_%u LIKE orders");
    unsigned long long inserted = 0;
    double start = now_s(), lasted = 0;
    while (lasted < seconds) {
        write_rows(7263951733829632000ULL + inserted, rows);
        struct db_run run = {0};
        while (db_run(db, &run))
            run.result = db_query(db, text, text_length);
        if (run.result != DB_OK)
            die("insert", db_error(db));
        inserted += (unsigned)rows;
        lasted = now_s() - start;
    }
    must(db, "DROP TABLE insert_limit_%u");
    db_close(&db);
    printf("{\"rows\":%llu,\"seconds\":%.6f,\"rows_per_s\":%.1f}\n", inserted, lasted,
           (double)inserted / lasted);
}

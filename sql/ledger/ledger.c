/* Opening and closing a ledger, and what its connection says of itself. */
#include "sql/ledger/ledger.h"

#include <stdlib.h>

#include "sql/ledger/ledger_query.h"

struct ledger *ledger_open(const char *url, int timeout_ms, char *error_out, size_t error_size)
{
    struct ledger *ledger = calloc(1, sizeof *ledger);
    if (!ledger)
        abort();
    ledger->db = db_open(url, timeout_ms, error_out, error_size);
    if (!ledger->db) {
        free(ledger);
        return NULL;
    }
    db_set_row_wait(ledger->db, LEDGER_ROW_WAIT_S);
    return ledger;
}

void ledger_close(struct ledger **ledger)
{
    if (*ledger) {
        if ((*ledger)->rows)
            (*ledger)->rows_close(&(*ledger)->rows);
        db_close(&(*ledger)->db);
        sql_free(&(*ledger)->sql);
    }
    free(*ledger);
    *ledger = NULL;
}

const char *ledger_error(const struct ledger *ledger)
{
    return db_error(ledger->db);
}

struct fault *ledger_fault(struct ledger *ledger)
{
    return db_fault(ledger->db);
}

const char *ledger_place(const struct ledger *ledger)
{
    return db_place(ledger->db);
}

struct db_stats ledger_stats(const struct ledger *ledger)
{
    return db_stats(ledger->db);
}

const char *ledger_server(const struct ledger *ledger)
{
    return db_server(ledger->db);
}

void ledger_look(struct ledger *ledger)
{
    db_look(ledger->db);
}

bool ledger_split(const struct ledger *ledger)
{
    return db_split(ledger->db);
}

uint64_t ledger_connection(const struct ledger *ledger)
{
    return db_stats(ledger->db).connects;
}

enum ledger_result ledger_ping(struct ledger *ledger)
{
    return ledger_from_db(db_ping(ledger->db));
}

/* What a daemon asks of the ledger's server when it starts. */
#ifndef SQL_LEDGER_SETUP_H
#define SQL_LEDGER_SETUP_H

#include "sql/ledger.h"

/* Which of the numbered files the database has not seen. */
struct ledger_schema {
    unsigned files, missing;
    const char *first; /* of the missing ones; NULL: none is */
};

/* Asks whether the tables are as this version wants them, and changes nothing. LEDGER_OK; LEDGER_NO
 * when files are missing; LEDGER_FAILED: not known. */
enum ledger_result ledger_schema_ask(struct ledger *ledger, struct ledger_schema *schema_out);

/* Creates or upgrades the tables, one daemon at a time under a server-side lock, for which it waits
 * up to 60 s. Harmless when the tables are there, and then it needs no right
 * to change any. Questions wait as long as the ledger's time-out
 * says; a statement that changes tables may take an hour, as large ones are copied. It waits only
 * for a moment at a time for a table that somebody has open, so that others get on. LEDGER_OK or
 * LEDGER_FAILED; then what was done stays done, and a repeat goes on. */
enum ledger_result ledger_migrate(struct ledger *ledger);

/* What is being done, for ledger_migrate_while. */
struct ledger_migration {
    const char *name;   /* of the numbered file; NULL: another daemon is waited for */
    int64_t waited_ms;  /* for the statement that runs now, or for the other daemon */
    const char *holder; /* who probably has the table open that it waits for; NULL: it does not */
};

/* The same, as long as `go_on`, which is asked every 100 ms or second, returns true: a process that
 * is told to end need not wait for the statement. The server finishes it all the same. */
enum ledger_result ledger_migrate_while(struct ledger *ledger,
                                        bool (*go_on)(const struct ledger_migration *now,
                                                      void *context),
                                        void *context);

#endif

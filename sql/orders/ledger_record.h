/* An order as the ledger has it. */
#ifndef SQL_LEDGER_RECORD_H
#define SQL_LEDGER_RECORD_H

#include "sql/orders/ledger_commit.h"
#include "sql/ledger_time.h"

/* An order as it was written, with its present status. */
struct ledger_record {
    uint64_t order_id;
    char sku[IDENTIFIER_SIZE];
    char user_id[USER_ID_SIZE];
    char key[IDENTIFIER_SIZE]; /* "" for none */
    char status[16];           /* "": there is no such order */
    bool damaged; /* its rows make no sense, see ledger_fault: nothing else but the id is set */
    /* Read for a payment alone; else false. */
    bool payable;    /* reserved, in time by the ledger's clock, and of the sale's present round */
    bool round_over; /* not paid, and the sale is in a later round */
    char created_at[LEDGER_TIME_SIZE];
    char expires_at[LEDGER_TIME_SIZE]; /* "": never */
    uint32_t round;
    uint32_t qty;
    uint32_t segment; /* the first one that its units were taken from */
};

#endif

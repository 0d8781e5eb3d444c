/* An order as its answers show it: the one serialiser, and the answer to each outcome. */
#ifndef SECKILL_SERVICE_REQUEST_ORDER_ANSWER_H
#define SECKILL_SERVICE_REQUEST_ORDER_ANSWER_H

#include <string.h>

#include "base/text.h"
#include "service/request/request.h"
#include "sql/payments/payments.h"

/* The members of an order's JSON, from whichever struct; the caller owns the texts. */
struct order_text {
    uint64_t order_id;
    const char *sku;
    uint32_t round; /* the sale's round */
    const char *user_id;
    uint32_t qty;
    uint32_t ordered; /* units at first; 0: qty */
    uint32_t segment;
    const char *status;
    const char *created_at;
    const char *expires_at; /* "": never */
    uint32_t version;       /* 0: not shown */
};

/* Initializes an order_text from a struct with members of these names, and a status. */
#define ORDER_TEXT(order, order_status)                                                            \
    {                                                                                              \
        .order_id = (order)->order_id, .sku = (order)->sku, .round = (order)->round,               \
        .user_id = (order)->user_id, .qty = (order)->qty, .segment = (order)->segment,             \
        .status = (order_status), .created_at = (order)->created_at,                               \
        .expires_at = (order)->expires_at, .ordered = (order)->ordered,                            \
    }

/* Largest size of an order's JSON with a newline and a NUL: names, marks, numbers, a sku, a user id
 * all escaped, a status and two times. */
enum { ORDER_TEXT_MAX = 632 };

/* Writes a text and a number behind it, and returns where they end. Without printf: every accepted
 * order passes here. */
static inline char *order_put_number(char *at, const char *lead, uint64_t number)
{
    return decimal_put(stpcpy(at, lead), number);
}

/* Writes the order as a JSON object and a NUL, and returns where the object ends. */
char *order_put(char *at, const struct order_text *order);

/* Answers an order that a worker or its HTTP thread has decided, counts it, and frees what it owns.
 * `refusal` is the problem if the order could not be decided. */
void order_answer(struct request *request, enum problem refusal);

/* Answers with an order as the ledger has it. `version`: 0 when a change made another one. */
void order_answer_record(struct answer *answer, const struct ledger_record *record,
                         uint32_t version);

/* Writes a text of printable ASCII as a JSON string's content and a NUL; returns where it ends. */
char *order_put_escaped(char *at, const char *text);

/* Writes a payment's ref and state as members, and a NUL. */
enum { PAYMENT_MEMBERS_MAX = 2 * PAYMENT_REF_SIZE + 80 };
void order_put_payment(char members_out[PAYMENT_MEMBERS_MAX], const struct ledger_payment *payment);

/* Answers likewise, with further members about a payment: JSON text that begins with a comma. */
void order_answer_payment(struct answer *answer, const struct ledger_record *record,
                          const char members[PAYMENT_MEMBERS_MAX]);

#endif

/* What a listing of orders is asked for: the parameters behind the question mark. */
#ifndef SECKILL_SERVICE_LISTING_H
#define SECKILL_SERVICE_LISTING_H

#include "service/handlers.h"

/* How many of the parameters sku, status, after and limit a call takes. */
enum listing_kind { LISTING_WHOLE = 2, LISTING_PAGE = 4 };

enum { LISTING_LIMIT = 100, LISTING_LIMIT_MAX = 1000 };

/* Fills in the request's filter, after and limit; else answers what is wrong, and is false. */
bool listing_read(struct request *request, const struct call *call, enum listing_kind kind);

#endif

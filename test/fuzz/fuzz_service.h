/* A service without servers: its Redis and its ledger refuse every connection. */
#ifndef TEST_FUZZ_FUZZ_SERVICE_H
#define TEST_FUZZ_FUZZ_SERVICE_H

#include "service/calls/calls.h"

#define FUZZ_TOKEN "secret" /* of admin and of the shop */

/* Makes the one service of this process, at the first call; it stays to the end. */
struct service *fuzz_service(void);

/* True when the text is a problem document with a stable code and with `status`. */
bool fuzz_is_problem(const char *text, size_t length, unsigned status);

/* Asserts that a handler has refused the request in words, or has answered with a fixed problem. */
void fuzz_check_refusal(const struct request *request);

#endif

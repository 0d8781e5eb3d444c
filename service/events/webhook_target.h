/* Where webhooks may go: public addresses by https, and what the option webhook_networks adds.
 *
 * why_at_connect: a name may have another address when it is looked up again, so the check of a URL
 * only helps its author. What counts is the check of the address that is connected to. */
#ifndef SECKILL_SERVICE_EVENTS_WEBHOOK_TARGET_H
#define SECKILL_SERVICE_EVENTS_WEBHOOK_TARGET_H

#include "service/config/address.h"

/* True when a request may go to this address. Without TLS it may go only to the networks in `own`;
 * with it, also to any public address. Private, local and reserved ones are not public, neither are
 * IPv6 addresses that stand for such an IPv4 one. Any thread. */
bool webhook_address_allowed(const struct networks *own, const struct address *address, bool tls);

/* Checks a webhook's URL. NULL, or a constant text that says what is wrong. Any thread. */
const char *webhook_url_fault(const struct networks *own, const char *url);

/* True for https, in a URL without a fault. */
bool webhook_url_tls(const char *url);

#endif

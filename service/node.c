/* This daemon's lease of a node number: taken at the start, renewed in the background, given back
 * at a clean stop. */
#include "service/node.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/fault.h"
#include "service/log/log.h"

enum { HOST_MAX = 40 }; /* bytes of the host's name in a holder's name */

/* Names the holder: the host and pid help people, the random part makes the name unique. */
void node_init(struct node *node, int wanted)
{
    char host[HOST_MAX + 1] = "";
    unsigned salt = 0;
    assert(wanted >= -1 && wanted < LEDGER_NODES);
    *node = (struct node){.wanted = wanted};
    if (gethostname(host, sizeof host) != 0)
        host[0] = '\0';
    host[HOST_MAX] = '\0';
    for (char *at = host; *at; at++)
        if (!identifier_valid(at, 1))
            *at = '-';
    ssize_t got = getrandom(&salt, sizeof salt, 0);
    assert(got == sizeof salt);
    snprintf(node->holder, sizeof node->holder, "%s:%d:%08x", host, (int)getpid(), salt);
}

const char *node_holder(const struct node *node)
{
    return node->holder;
}

/* Counts from before the statement was sent, as the ledger counts from a later moment. */
static void tell_generator(const struct node *node, struct order_ids *ids, int64_t asked_ns)
{
    const struct order_id_lease lease = {
        .node = (unsigned)node->lease.number,
        .from_ms = node->lease.ids_from_ms,
        .to_ms = node->lease.ids_to_ms,
        .until_ns = asked_ns + (NODE_LEASE_MS - NODE_MARGIN_MS) * CLOCK_NS_PER_MS,
    };
    order_ids_lease(ids, &lease);
}

/* A holder that renews its lease while this daemon waits is alive. */
static void note_other(struct node *node, const char *other, const char *until)
{
    node->other_lives = node->other[0] != '\0' && strcmp(node->other, other) == 0 &&
                        strcmp(node->other_until, until) != 0;
    snprintf(node->other, sizeof node->other, "%s", other);
    snprintf(node->other_until, sizeof node->other_until, "%s", until);
}

static enum ledger_result take(struct node *node, struct ledger *ledger, uint64_t next_ms)
{
    char other[IDENTIFIER_SIZE], until[LEDGER_TIME_SIZE];
    node->lease = (struct ledger_node){
        .number = node->wanted,
        .holder = node->holder,
        .lease_ms = NODE_LEASE_MS,
        .next_ms = next_ms,
        .last_ms = ORDER_ID_LAST_MS,
    };
    enum ledger_result result = ledger_node_take(ledger, &node->lease, other, until);
    note_other(node, result == LEDGER_NO ? other : "", until);
    if (result == LEDGER_NO)
        log_event(
            LOG_WARN, "node_taken", "node=%d holder=%s until=%s effect=%s", node->wanted,
            LOG_QUOTE(other), LOG_QUOTE(until),
            LOG_QUOTE("the start waits until the lease ends; while its holder renews it, this "
                      "daemon ends with status 2"));
    else if (result != LEDGER_OK)
        log_event(LOG_WARN, "node_not_leased", "error=%s effect=%s",
                  LOG_QUOTE(result == LEDGER_DAMAGED ? ledger_fault(ledger)->error
                                                     : ledger_error(ledger)),
                  LOG_QUOTE("the daemon makes no order ids; it tries again"));
    return result;
}

static enum ledger_result renew(struct node *node, struct ledger *ledger, uint64_t next_ms)
{
    node->lease.next_ms = next_ms;
    enum ledger_result result = ledger_node_renew(ledger, &node->lease);
    if (result == LEDGER_NO) {
        log_event(LOG_WARN, "node_lost", "node=%d effect=%s", node->lease.number,
                  LOG_QUOTE("another daemon has the number; this one takes another, and answers "
                            "orders 503 no_order_id until then"));
        node->held = false;
    } else if (result != LEDGER_OK) {
        log_event(LOG_WARN, "node_not_renewed", "node=%d error=%s effect=%s", node->lease.number,
                  LOG_QUOTE(ledger_error(ledger)),
                  LOG_QUOTE("the daemon tries again; when the lease ends first, orders are "
                            "answered 503 no_order_id"));
    }
    return result;
}

/* A lease by such a clock would leave no ids for any later holder of the number. */
static bool clock_beyond(uint64_t next_ms)
{
    if (next_ms <= ORDER_ID_LAST_MS - NODE_LEASE_MS)
        return false;
    log_failure(LOG_ERROR, "clock_beyond_ids", "none", "ms=%llu last_ms=%llu effect=%s",
                (unsigned long long)next_ms, (unsigned long long)ORDER_ID_LAST_MS,
                LOG_QUOTE("the daemon leases no node number and takes no orders until the "
                          "ledger's clock is right; no order id carries a time as late as this"));
    return true;
}

bool node_keep(struct node *node, struct order_ids *ids, struct ledger *ledger)
{
    int64_t asked_ns = clock_boot_ns();
    if (node->held && asked_ns < node->due_ns)
        return true;
    uint64_t next_ms = order_ids_next_ms(ids);
    enum ledger_result result = LEDGER_NO;
    if (clock_beyond(next_ms))
        return node->held;
    if (node->held)
        result = renew(node, ledger, next_ms);
    bool leases = !node->held;
    if (leases)
        result = take(node, ledger, next_ms);
    node->answered = result == LEDGER_OK || result == LEDGER_NO;
    if (result != LEDGER_OK)
        return node->held;
    node->held = true;
    node->due_ns = asked_ns + NODE_RENEW_MS * CLOCK_NS_PER_MS;
    tell_generator(node, ids, asked_ns);
    if (leases) /* now orders get ids */
        log_event(LOG_INFO, "node_leased", "node=%d", node->lease.number);
    return true;
}

void node_doubt(struct node *node)
{
    node->due_ns = 0;
    node->answered = false;
}

bool node_refused(const struct node *node, char *error_out, size_t error_size)
{
    if (!node->other_lives)
        return false;
    snprintf(error_out, error_size, "node_id %d is in use by another daemon, %s", node->wanted,
             node->other);
    return true;
}

/* Skips a ledger that did not answer last: it would only delay the daemon's end. */
void node_release(struct node *node, struct order_ids *ids, struct ledger *ledger)
{
    if (!node->held || !node->answered)
        return;
    order_ids_lease(ids, &(struct order_id_lease){.node = (unsigned)node->lease.number});
    /* The clock may be ahead of the lease, but ids are not. */
    node->lease.next_ms = order_ids_next_ms(ids);
    if (node->lease.next_ms > node->lease.ids_to_ms)
        node->lease.next_ms = node->lease.ids_to_ms;
    if (ledger_node_release(ledger, &node->lease) != LEDGER_OK)
        log_event(LOG_WARN, "node_not_released", "node=%d error=%s effect=%s", node->lease.number,
                  LOG_QUOTE(ledger_error(ledger)),
                  LOG_QUOTE("the number is free when its lease ends, in 10 s at most"));
    node->held = false;
}

/* Writes the ids of clients, and reads in them who holds a lock. */
#include "lock/holder.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* why_in_the_id: whoever waits wants to know for whom, and the token of the holder is what every
 * server keeps anyway. The random part alone makes an id differ from all others. */
enum { RANDOM_DIGITS = 18, PROCESS_DIGITS = 6, ADDRESS_DIGITS = 8 };

_Static_assert(RANDOM_DIGITS + PROCESS_DIGITS + ADDRESS_DIGITS == LOCK_RANDOM_SIZE - 1, "id");

/* The first IPv4 address of an interface that others can reach; 0: there is none. */
static uint32_t host_address(void)
{
    struct ifaddrs *all = NULL;
    uint32_t address = 0;
    if (getifaddrs(&all) != 0)
        return 0;
    for (const struct ifaddrs *i = all; i && address == 0; i = i->ifa_next) {
        struct sockaddr_in in;
        if (!i->ifa_addr || i->ifa_addr->sa_family != AF_INET || (i->ifa_flags & IFF_LOOPBACK) ||
            !(i->ifa_flags & IFF_UP))
            continue;
        memcpy(&in, i->ifa_addr, sizeof in);
        address = ntohl(in.sin_addr.s_addr);
    }
    freeifaddrs(all);
    return address;
}

void holder_id(char id_out[LOCK_RANDOM_SIZE])
{
    char who[PROCESS_DIGITS + ADDRESS_DIGITS + 1];
    snprintf(who, sizeof who, "%06x%08x", (unsigned)getpid() & 0xffffff, host_address());
    lock_random_text(id_out);
    memcpy(id_out + RANDOM_DIGITS, who, sizeof who);
}

void holder_find(struct seclock_status *status)
{
    char digits[ADDRESS_DIGITS + 1] = "";
    const char *id = status->holder;
    if (strspn(id, "0123456789abcdef") != LOCK_RANDOM_SIZE - 1)
        return;
    memcpy(digits, id + RANDOM_DIGITS, PROCESS_DIGITS);
    status->holder_pid = (int64_t)strtoul(digits, NULL, 16);
    memcpy(digits, id + RANDOM_DIGITS + PROCESS_DIGITS, ADDRESS_DIGITS);
    struct in_addr address = {.s_addr = htonl((uint32_t)strtoul(digits, NULL, 16))};
    if (address.s_addr != 0)
        inet_ntop(AF_INET, &address, status->holder_host, sizeof status->holder_host);
}

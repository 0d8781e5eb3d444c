/* What Redis Cluster says in its protocol: the slot of a key, and the refusals that lead to another
 * node. */
#include "lua/cluster/slots.h"

#include <assert.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* CRC16 of the polynomial 0x1021 (XMODEM), four bits at a time. */
static uint16_t crc16(const char *bytes, size_t length)
{
    static const uint16_t table[16] = {0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5,
                                       0x60c6, 0x70e7, 0x8108, 0x9129, 0xa14a, 0xb16b,
                                       0xc18c, 0xd1ad, 0xe1ce, 0xf1ef};
    unsigned crc = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned byte = (unsigned char)bytes[i];
        crc = (crc << 4 & 0xffff) ^ table[crc >> 12 ^ byte >> 4];
        crc = (crc << 4 & 0xffff) ^ table[crc >> 12 ^ (byte & 15)];
    }
    return (uint16_t)crc;
}

unsigned cluster_slot(const char *key, size_t length)
{
    const char *open = memchr(key, '{', length);
    const char *close = open ? memchr(open, '}', length - (size_t)(open - key)) : NULL;
    if (close && close > open + 1)
        return crc16(open + 1, (size_t)(close - open) - 1) % CLUSTER_SLOTS;
    return crc16(key, length) % CLUSTER_SLOTS;
}

static bool begins(const char *text, const char *word)
{
    return strncmp(text, word, strlen(word)) == 0;
}

/* Reads "SLOT HOST:PORT"; the host of an IPv6 address has colons of its own. */
static bool read_redirect(const char *text, struct cluster_redirect *redirect_out)
{
    char *end;
    unsigned long slot = strtoul(text, &end, 10);
    const char *colon = strrchr(text, ':');
    if (end == text || *end != ' ' || slot >= CLUSTER_SLOTS || !colon || colon < end + 1)
        return false;
    const char *host = end + 1;
    size_t length = (size_t)(colon - host);
    unsigned long port = strtoul(colon + 1, &end, 10);
    if (length >= sizeof redirect_out->host || port == 0 || port > 65535 || *end != '\0')
        return false;
    redirect_out->slot = (unsigned)slot;
    memcpy(redirect_out->host, host, length);
    redirect_out->host[length] = '\0';
    redirect_out->port = (unsigned)port;
    return true;
}

static enum cluster_refusal lead(const char *text, enum cluster_refusal refusal,
                                 struct cluster_redirect *redirect_out)
{
    if (!read_redirect(text, redirect_out))
        return CLUSTER_DOWN;
    return strcmp(redirect_out->host, "?") == 0 ? CLUSTER_TRY_AGAIN : refusal;
}

enum cluster_refusal cluster_refusal(const char *error, struct cluster_redirect *redirect_out)
{
    assert(error);
    *redirect_out = (struct cluster_redirect){.port = 0};
    if (begins(error, "MOVED "))
        return lead(error + 6, CLUSTER_MOVED, redirect_out);
    if (begins(error, "ASK "))
        return lead(error + 4, CLUSTER_ASK, redirect_out);
    if (begins(error, "TRYAGAIN"))
        return CLUSTER_TRY_AGAIN;
    return begins(error, "CLUSTERDOWN") ? CLUSTER_DOWN : CLUSTER_NO_REFUSAL;
}

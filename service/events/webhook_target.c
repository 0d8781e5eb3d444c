/* Where webhooks may go. */
#include "service/events/webhook_target.h"

#include <curl/curl.h>
#include <pthread.h>
#include <string.h>
#include <strings.h>

#include "base/config_file.h"
#include "base/memory.h"
#include "sql/events/webhooks.h"

/* Public are IPv4 and, of IPv6, 2000::/3, without the special networks in them. */
#define PUBLIC "0.0.0.0/0,2000::/3"
#define SPECIAL                                                                                    \
    "0.0.0.0/8,10.0.0.0/8,100.64.0.0/10,127.0.0.0/8,169.254.0.0/16,172.16.0.0/12,192.0.0.0/24,"    \
    "192.0.2.0/24,192.88.99.0/24,192.168.0.0/16,198.18.0.0/15,198.51.100.0/24,203.0.113.0/24,"     \
    "224.0.0.0/4,240.0.0.0/4,2001::/23,2001:db8::/32,3fff::/20"
#define NAT64 "64:ff9b::/96"
#define SIX_TO_FOUR "2002::/16"

static struct networks public, special, nat64, six_to_four;

static void parse_all(void)
{
    if (!networks_parse(PUBLIC, &public) || !networks_parse(SPECIAL, &special) ||
        !networks_parse(NAT64, &nat64) || !networks_parse(SIX_TO_FOUR, &six_to_four))
        abort();
}

/* Returns the IPv4 address that an IPv6 one stands for, or the address itself. */
static struct address translated(const struct address *address)
{
    struct address real = public.list[0].address; /* an IPv4 one */
    if (networks_hold(&nat64, address))
        memcpy(real.bytes + 12, address->bytes + 12, 4);
    else if (networks_hold(&six_to_four, address))
        memcpy(real.bytes + 12, address->bytes + 2, 4);
    else
        real = *address;
    return real;
}

bool webhook_address_allowed(const struct networks *own, const struct address *address, bool tls)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, parse_all);
    struct address real = translated(address);
    return networks_hold(own, address) ||
           (tls && networks_hold(&public, &real) && !networks_hold(&special, &real));
}

/* ---- URLs ---- */

bool webhook_url_tls(const char *url)
{
    static const char https[] = "https:";
    return strncasecmp(url, https, sizeof https - 1) == 0;
}

/* The library writes an IPv4 address of any notation in its usual form. */
static const char *host_fault(CURLU *parts, const struct networks *own, bool tls)
{
    char *host = NULL;
    struct address address;
    if (curl_url_get(parts, CURLUPART_HOST, &host, 0) != CURLUE_OK)
        return "url has no host.";
    bool refused =
        address_parse(host, strlen(host), &address) && !webhook_address_allowed(own, &address, tls);
    curl_free(host);
    return !refused ? NULL
           : tls    ? "url has an address that is not public; see webhook_networks."
                    : "url has an address that http may not go to; see webhook_networks.";
}

const char *webhook_url_fault(const struct networks *own, const char *url)
{
    if (url[0] == '\0' || strlen(url) >= WEBHOOK_URL_SIZE || !text_visible(url))
        return "url must have 1 to 512 visible ASCII characters.";
    if (!webhook_url_tls(url) && strncasecmp(url, "http:", 5) != 0)
        return "url must begin with https:// or http://.";
    CURLU *parts = memory_must(curl_url());
    CURLUcode code = curl_url_set(parts, CURLUPART_URL, url, CURLU_DISALLOW_USER);
    const char *fault = code == CURLUE_OK ? host_fault(parts, own, webhook_url_tls(url))
                        : code == CURLUE_USER_NOT_ALLOWED ? "url must have no user and no password."
                                                          : "url is not a URL.";
    curl_url_cleanup(parts);
    return fault;
}

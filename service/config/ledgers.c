/* The ledgers that mysql_url lists: one URL, or the shards' in their order. */
#include "service/config/ledgers.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

/* Whether two URLs have a server in common, by the names that they give. */
static bool share_server(const struct url *one, const struct url *other)
{
    if (one->socket[0] != '\0' || other->socket[0] != '\0')
        return strcmp(one->socket, other->socket) == 0;
    for (size_t i = 0; i < one->server_count; i++)
        for (size_t j = 0; j < other->server_count; j++)
            if (one->servers[i].port == other->servers[j].port &&
                strcasecmp(one->servers[i].host, other->servers[j].host) == 0)
                return true;
    return false;
}

/* Two shards in one database would take each other's sales for theirs. A ledger that has two names
 * is noticed when it is prepared (ledger_shard_claim). */
static bool same_ledger(const char *one, const struct url *other)
{
    char why[URL_ERROR_SIZE];
    struct url parts;
    return url_parse(one, "mysql", &parts, why, sizeof why) && share_server(&parts, other) &&
           strcmp(parts.database, other->database) == 0;
}

static bool add(struct ledgers *ledgers, const char *url, char why_out[URL_ERROR_SIZE])
{
    struct url parts;
    if (ledgers->count == LEDGERS_MAX) {
        snprintf(why_out, URL_ERROR_SIZE, "there are more than %d ledgers", LEDGERS_MAX);
        return false;
    }
    if (!url_parse(url, "mysql", &parts, why_out, URL_ERROR_SIZE))
        return false;
    for (size_t i = 0; i < ledgers->count; i++)
        if (same_ledger(ledgers->urls[i], &parts)) {
            snprintf(why_out, URL_ERROR_SIZE, "shard %zu and shard %zu of the list are one ledger",
                     i, ledgers->count);
            return false;
        }
    ledgers->urls[ledgers->count++] = url;
    return true;
}

bool ledgers_parse(const char *text, struct ledgers *ledgers_out, char why_out[URL_ERROR_SIZE])
{
    char *rest = NULL;
    *ledgers_out = (struct ledgers){.count = 0};
    why_out[0] = '\0';
    if (strlen(text) >= sizeof ledgers_out->text)
        return false;
    strcpy(ledgers_out->text, text);
    for (char *url = strtok_r(ledgers_out->text, " \t", &rest); url;
         url = strtok_r(NULL, " \t", &rest))
        if (!add(ledgers_out, url, why_out))
            return false;
    if (ledgers_out->count == 0) /* says of an empty text what is wrong with it */
        return url_parse("", "mysql", &(struct url){.server_count = 0}, why_out, URL_ERROR_SIZE);
    return true;
}

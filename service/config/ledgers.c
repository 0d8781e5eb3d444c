/* The ledgers that mysql_url lists: one URL, or the shards' in their order. */
#include "service/config/ledgers.h"

#include <stdio.h>
#include <string.h>

/* Two shards in one database would make the same ids and sell each other's sales. */
static bool same_ledger(const char *one, const char *other)
{
    char places[2][URL_PLACE_SIZE], why[URL_ERROR_SIZE];
    struct url urls[2];
    url_place(one, "mysql", places[0]);
    url_place(other, "mysql", places[1]);
    return strcmp(places[0], places[1]) == 0 &&
           url_parse(one, "mysql", &urls[0], why, sizeof why) &&
           url_parse(other, "mysql", &urls[1], why, sizeof why) &&
           strcmp(urls[0].database, urls[1].database) == 0;
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
        if (same_ledger(ledgers->urls[i], url)) {
            snprintf(why_out, URL_ERROR_SIZE, "the ledgers %zu and %zu of the list are the same",
                     i + 1, ledgers->count + 1);
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

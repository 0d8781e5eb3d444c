/* The modes in which the daemon does not serve: --check-config, --migrate, --print-grants. */
#include "service/setup.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"
#include "base/url.h"
#include "lua/tls.h"
#include "service/log/log.h"
#include "service/workers/workers.h"
#include "sql/server/server.h"

enum { STATUS_GOOD, STATUS_FAILED, STATUS_BAD, ERROR_MAX = 256 };

/* A serving daemon reads a URL's files whenever it connects, as they may change, and logs a
 * mistake. */
static bool check_files(const char *option, const char *urls)
{
    bool good = true;
    char *list = memory_must(strdup(urls)), *rest = NULL;
    for (char *one = strtok_r(list, " ", &rest); one; one = strtok_r(NULL, " ", &rest)) {
        struct url url;
        char why[ERROR_MAX];
        const char *scheme = url_scheme(one);
        if (!scheme || !url_parse(one, scheme, &url, why, sizeof why) || !url.tls ||
            tls_check_files(&url, why, sizeof why))
            continue;
        fprintf(stderr, SECKILL_PROGRAM ": %s: %s\n", option, why);
        good = false;
    }
    free(list);
    return good;
}

/* config_load has reported all other mistakes. */
static int check_config(const struct config *config)
{
    bool files = check_files("redis_url", config->redis_url);
    files = check_files("mysql_url", config->mysql_url) && files;
    files = check_files("lock_servers", config->lock_servers) && files;
    if (!files)
        return STATUS_BAD;
    printf(SECKILL_PROGRAM ": the configuration is good\n");
    return STATUS_GOOD;
}

static int report_failure(const struct ledger *ledger)
{
    fprintf(stderr, SECKILL_PROGRAM ": cannot update the tables at %s: %s\n", ledger_place(ledger),
            ledger_error(ledger)[0] ? ledger_error(ledger) : "told to end");
    return STATUS_FAILED;
}

static int update(struct ledger *ledger)
{
    struct ledger_schema before, after;
    if (ledger_schema_ask(ledger, &before) == LEDGER_FAILED ||
        preparer_migrate(ledger, NULL) != LEDGER_OK ||
        ledger_schema_ask(ledger, &after) != LEDGER_OK)
        return report_failure(ledger);
    printf(SECKILL_PROGRAM ": the tables at %s are up to date: %u of %u changes were made now\n",
           ledger_place(ledger), before.missing, after.files);
    return STATUS_GOOD;
}

static int migrate(const char *url, int timeout_ms)
{
    char error[ERROR_MAX];
    struct ledger *ledger = ledger_open(url, timeout_ms, error, sizeof error);
    if (!ledger) {
        fprintf(stderr, SECKILL_PROGRAM ": %s\n", error);
        return STATUS_BAD;
    }
    int status = update(ledger);
    ledger_close(&ledger);
    log_flush();
    return status;
}

/* The commands of health_probe.lua, those of the dashboard's lists, and those that keep a
 * connection. */
#define REDIS_RIGHTS                                                                               \
    "~" STOCK_PREFIX "* &" STOCK_PREFIX "* +@pubsub +@transaction +auth +hello +select +ping "     \
    "+info +cluster|slots +asking +eval +evalsha +time +set +get +getrange +del +unlink +rename "  \
    "+exists +type +pttl +expire +pexpire +persist +hset +hget +hmget +hexists +hincrby +sadd "    \
    "+srem +srandmember +lpush +ltrim +lrange"

static int print_grants(const struct config *config)
{
    char error[URL_ERROR_SIZE];
    struct url redis;
    if (ledger_grants_print(stdout, config->mysql_url) &&
        url_parse(config->redis_url, "redis", &redis, error, sizeof error)) {
        printf("\n-- The account at Redis, from 6.2 on:\n"
               "-- ACL SETUSER %s reset on '>a password' " REDIS_RIGHTS "\n",
               redis.user[0] ? redis.user : "seckill");
        return STATUS_GOOD;
    }
    fprintf(stderr, SECKILL_PROGRAM ": mysql_url names no user, or one whose name with _migrate "
                                    "behind has more than 32 characters\n");
    return STATUS_BAD;
}

int setup_run(struct config *config)
{
    assert(config->mode != CONFIG_SERVE);
    int status = config->mode == CONFIG_CHECK ? check_config(config)
                 : config->mode == CONFIG_MIGRATE
                     ? migrate(config->mysql_url, (int)config->mysql_timeout_ms)
                     : print_grants(config);
    config_free(config);
    return status;
}

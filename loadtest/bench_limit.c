/* The limits of the servers: pairs of requests by hiredis, our client of MySQL, ZooKeeper's client
 * and libcurl. */
#include "loadtest/bench_limit.h"

#include <hiredis/hiredis.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#ifdef LOCK_WITH_ZOOKEEPER
#define THREADED /* for the synchronous calls */
#include <zookeeper/zookeeper.h>
#endif
#ifdef LOCK_WITH_ETCD
#include <curl/curl.h>
#endif

#include "base/url.h"
#include "sql/db/db.h"

enum { URL_MAX = 256, SESSION_MS = 10000, CONNECT_TRIES = 500, TRY_US = 20000 };

void die(const char *what, const char *why)
{
    fprintf(stderr, "bench_lock: %s: %s\n", what, why);
    exit(1);
}

/* ---- Redis: SET NX PX, and EVALSHA of compare and delete ---- */

static const char release_text[] =
    "if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end return 0";
static const char token[] = "0123456789abcdef0123456789abcdef-1-1";
static char release_sha1[41];
static redisContext *redis;

/* Ends the program unless the reply is `number`, or OK where that is 0. */
static void redis_expect(redisReply *reply, long long number)
{
    if (!reply || reply->type == REDIS_REPLY_ERROR)
        die("redis", reply ? reply->str : redis->errstr);
    if (number > 0 ? reply->integer != number : reply->type != REDIS_REPLY_STATUS)
        die("redis", "the key of the limit is in use");
    freeReplyObject(reply);
}

static void redis_first(void)
{
    redis_expect(redisCommand(redis, "SET {bench}:raw %s NX PX 10000", token), 0);
}

static void redis_second(void)
{
    redis_expect(redisCommand(redis, "EVALSHA %s 1 {bench}:raw %s", release_sha1, token), 1);
}

/* False for an address with a password, which a server for benches does not need. */
static bool redis_connect_to(const char *url)
{
    char host[URL_MAX], password[URL_MAX] = "";
    int port = 6379, db = 0;
    if (sscanf(url, "redis://:%255[^@]@%255[^:/]:%d/%d", password, host, &port, &db) < 2 &&
        (strchr(url, '@') || sscanf(url, "redis://%255[^:/]:%d/%d", host, &port, &db) < 1))
        return false;
    if (redis)
        redisFree(redis);
    redis = redisConnect(host, port);
    if (!redis || redis->err)
        die("redis", redis ? redis->errstr : "out of memory");
    if (password[0] != '\0')
        redis_expect(redisCommand(redis, "AUTH %s", password), 0);
    redis_expect(redisCommand(redis, "SELECT %d", db), 0);
    redisReply *reply = redisCommand(redis, "SCRIPT LOAD %s", release_text);
    if (!reply || reply->type != REDIS_REPLY_STRING)
        die("redis", "SCRIPT LOAD is refused");
    snprintf(release_sha1, sizeof release_sha1, "%s", reply->str);
    freeReplyObject(reply);
    return true;
}

/* ---- MySQL: an UPDATE that commits, which the server has on its disk before it answers ---- */

static struct db *mysql;

static void mysql_do(const char *text)
{
    if (db_query(mysql, text, strlen(text)) != DB_OK)
        die("mysql", db_error(mysql));
}

static void mysql_update(void)
{
    mysql_do("UPDATE bench_limit SET number = number + 1 WHERE id = 1");
    if (db_affected(mysql, 0) != 1)
        die("mysql", "the row of the limit is gone");
}

static void mysql_lock(void)
{
    mysql_do("SELECT GET_LOCK('bench_limit', 0)");
}

static void mysql_unlock(void)
{
    mysql_do("SELECT RELEASE_LOCK('bench_limit')");
}

static bool mysql_connect_to(const char *url)
{
    char error[256];
    db_close(&mysql);
    mysql = db_open(url, SESSION_MS, error, sizeof error);
    if (!mysql)
        return false;
    mysql_do("CREATE TABLE IF NOT EXISTS bench_limit (id INT PRIMARY KEY, number BIGINT NOT NULL)"
             " ENGINE=InnoDB");
    mysql_do("INSERT IGNORE INTO bench_limit VALUES (1, 0)");
    return true;
}

/* ---- ZooKeeper: one node made and deleted ---- */

#ifdef LOCK_WITH_ZOOKEEPER
static zhandle_t *zookeeper;

static void zookeeper_first(void)
{
    int result =
        zoo_create(zookeeper, "/bench-limit", "", 0, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL, NULL, 0);
    if (result != ZOK)
        die("zookeeper", zerror(result));
}

static void zookeeper_second(void)
{
    int result = zoo_delete(zookeeper, "/bench-limit", -1);
    if (result != ZOK)
        die("zookeeper", zerror(result));
}

static bool zookeeper_connect_to(const char *url)
{
    const char *hosts = strstr(url, "://");
    zoo_set_debug_level(0);
    zookeeper = zookeeper_init(hosts ? hosts + 3 : url, NULL, SESSION_MS, NULL, NULL, 0);
    for (int i = 0; zookeeper && zoo_state(zookeeper) != ZOO_CONNECTED_STATE; i++) {
        if (i == CONNECT_TRIES)
            die("zookeeper", "it cannot be reached");
        usleep(TRY_US);
    }
    return zookeeper != NULL;
}
#endif

/* ---- etcd: the transactions of the lock over one kept connection ---- */

#ifdef LOCK_WITH_ETCD
#define ETCD_KEY "L2JlbmNoL2xpbWl0L2tleQ==" /* "/bench/limit/key" */
#define ETCD_END "L2JlbmNoL2xpbWl0MA=="     /* "/bench/limit0" */
#define ETCD_ENDED "L2JlbmNoL2VuZGVk"       /* "/bench/ended" */

static CURL *etcd;
static char etcd_url[URL_MAX], etcd_put[URL_MAX * 4], etcd_answer[URL_MAX * 4];

static size_t etcd_take(char *data, size_t size, size_t count, void *context)
{
    size_t used = strlen(etcd_answer), more = size * count;
    (void)context;
    if (used + more >= sizeof etcd_answer)
        return 0;
    memcpy(etcd_answer + used, data, more);
    etcd_answer[used + more] = '\0';
    return more;
}

static void etcd_post(const char *path, const char *body, const char *expected)
{
    char url[URL_MAX * 2];
    snprintf(url, sizeof url, "%s%s", etcd_url, path);
    curl_easy_setopt(etcd, CURLOPT_URL, url);
    curl_easy_setopt(etcd, CURLOPT_POSTFIELDS, body);
    etcd_answer[0] = '\0';
    CURLcode result = curl_easy_perform(etcd);
    if (result != CURLE_OK || !strstr(etcd_answer, expected))
        die("etcd", result != CURLE_OK ? curl_easy_strerror(result) : etcd_answer);
}

static void etcd_first(void)
{
    etcd_post("/v3/kv/txn", etcd_put, "\"succeeded\":true");
}

static void etcd_second(void)
{
    etcd_post("/v3/kv/deleterange", "{\"key\":\"" ETCD_KEY "\"}", "\"deleted\":\"1\"");
}

/* Gives its key a lease, as the lock does. False for an address with a user or TLS. */
static bool etcd_connect_to(const char *url)
{
    struct url at;
    char error[URL_ERROR_SIZE], place[URL_PLACE_SIZE], lease[32] = "";
    if (!url_parse(url, "etcd", &at, error, sizeof error) || at.tls || at.user[0] != '\0')
        return false;
    url_server_place(at.servers[0].host, at.servers[0].port, place);
    snprintf(etcd_url, sizeof etcd_url, "http://%.240s", place);
    etcd = curl_easy_init();
    if (!etcd)
        die("etcd", "out of memory");
    curl_easy_setopt(etcd, CURLOPT_WRITEFUNCTION, etcd_take);
    curl_easy_setopt(etcd, CURLOPT_NOSIGNAL, 1L);
    etcd_post("/v3/lease/grant", "{\"TTL\":\"3600\"}", "\"ID\"");
    if (sscanf(strstr(etcd_answer, "\"ID\""), "\"ID\":\"%31[0-9]", lease) != 1)
        die("etcd", "it grants no lease");
    snprintf(etcd_put, sizeof etcd_put,
             "{\"compare\":[{\"target\":\"CREATE\",\"key\":\"" ETCD_ENDED
             "\"},{\"target\":\"CREATE\",\"key\":\"" ETCD_KEY "\",\"range_end\":\"" ETCD_END
             "\"}],\"success\":[{\"request_put\":{\"key\":\"" ETCD_KEY
             "\",\"value\":\"%s\",\"lease\":\"%s\"}}],\"failure\":[{\"request_range\":"
             "{\"key\":\"" ETCD_KEY "\",\"keys_only\":true}}]}",
             "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWYtMQ==", lease);
    return true;
}
#endif

/* ---- by kind ---- */

const struct limit *limit_open(enum seclock_kind kind, const char *url)
{
    static const struct limit of_redis = {"SET NX PX, EVALSHA", redis_first, redis_second};
    static const struct limit of_mysql = {"UPDATE, UPDATE", mysql_update, mysql_update};
    static const struct limit of_get_lock = {"GET_LOCK, RELEASE_LOCK", mysql_lock, mysql_unlock};
    switch (kind) {
    case SECLOCK_KIND_TABLE:
        return mysql_connect_to(url) ? &of_mysql : NULL;
    case SECLOCK_KIND_GET_LOCK:
        return mysql_connect_to(url) ? &of_get_lock : NULL;
#ifdef LOCK_WITH_ZOOKEEPER
    case SECLOCK_KIND_QUEUE: {
        static const struct limit of_zookeeper = {"create, delete", zookeeper_first,
                                                  zookeeper_second};
        return zookeeper_connect_to(url) ? &of_zookeeper : NULL;
    }
#endif
#ifdef LOCK_WITH_ETCD
    case SECLOCK_KIND_ETCD: {
        static const struct limit of_etcd = {"txn, deleterange", etcd_first, etcd_second};
        return etcd_connect_to(url) ? &of_etcd : NULL;
    }
#endif
    default:
        return redis_connect_to(url) ? &of_redis : NULL;
    }
}

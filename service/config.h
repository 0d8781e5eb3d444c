/* The options of the service: one table, from which fields, flags, variables and manual come. */
#ifndef SECKILL_SERVICE_CONFIG_H
#define SECKILL_SERVICE_CONFIG_H

#include <stddef.h>
#include <stdio.h>

#ifndef SECKILL_VERSION
#define SECKILL_VERSION "0.1.0"
#endif

/* What can be chosen: only what is built in. Words apart by one space. */
#define CONFIG_STRATEGIES "segment_lock single_lock atomic optimistic database"
#define CONFIG_LOCKS "redis redlock mysql zookeeper"
#define CONFIG_LOG_LEVELS "debug info warn error"

/*
 * X(type, name, default, detail, min, max, doc). Every option is a line `name = value` of the
 * configuration file, a variable SECKILL_NAME and a flag --name (with dashes). The types:
 *   ADDRESS   host:port, port 0..65535
 *   URL       detail: its scheme; may hold a password
 *   URLS      several or none, apart by spaces or commas; detail: the schemes
 *   SECRET    visible characters without spaces; never printed
 *   PATH      a file's name, empty for none
 *   UNSIGNED  min..max, detail: the unit
 *   INTEGER   the same, may be negative
 *   CHOICE    one word of detail
 *   NETWORKS  addresses and networks with commas between, empty for none
 */
#define CONFIG_OPTIONS(X)                                                                          \
    X(ADDRESS, listen, "127.0.0.1:8080", "", 0, 0,                                                 \
      "Address and port to serve on. Port 0 takes a free one, which the log names. An IPv6 "       \
      "address stands in brackets.")                                                               \
    X(URL, redis_url, "redis://127.0.0.1:6379/0", "redis", 0, 0,                                   \
      "Redis, which holds the locks and the segments' counters: "                                  \
      "redis://[user:password@]host:port/db. It may lose everything at any time.")                 \
    X(URL, mysql_url, "mysql://seckill@127.0.0.1:3306/seckill", "mysql", 0, 0,                     \
      "The ledger, MariaDB or MySQL, which holds orders and units sold: "                          \
      "mysql://user:password@host:port/db, with ?socket=/path for a local socket.")                \
    X(SECRET, admin_token, "", "", 0, 0,                                                           \
      "What callers of /admin/ must send as Authorization: Bearer TOKEN. While it is empty, all "  \
      "such calls are refused. Flags and variables can be seen by others on the machine: "         \
      "admin_token_file is the better place.")                                                     \
    X(PATH, admin_token_file, "", "", 0, 0,                                                        \
      "A file whose only line is the admin token. Not together with admin_token.")                 \
    X(UNSIGNED, lanes, "1", "threads", 1, 64,                                                      \
      "Threads that carry orders to Redis and the ledger, each with connections of its own. More " \
      "lanes make smaller batches; on few cores one is the fastest.")                              \
    X(UNSIGNED, fronts, "1", "threads", 1, 64, "Threads that speak HTTP with the clients.")        \
    X(UNSIGNED, max_batch, "128", "orders", 1, 512,                                                \
      "The most orders that share one lock and one commit. A lane takes what is waiting and "      \
      "never waits for more. 1 is the classic scheme: a lock and a commit for each order.")        \
    X(CHOICE, strategy, "segment_lock", CONFIG_STRATEGIES, 0, 0,                                   \
      "How units are taken without overselling.")                                                  \
    X(CHOICE, lock, "redis", CONFIG_LOCKS, 0, 0,                                                   \
      "Which distributed lock guards a segment, for the strategy segment_lock. The others are "    \
      "taken around the one in Redis and cost round trips of their own.")                          \
    X(URLS, lock_servers, "", "redis mysql zookeeper", 0, 0,                                       \
      "The servers of that lock: three or more independent redis:// for redlock; a mysql:// for "  \
      "mysql, the ledger if there is none; zookeeper://host:port,host:port for zookeeper.")        \
    X(UNSIGNED, lease_ms, "3000", "ms", 100, 60000,                                                \
      "How long a segment's lock is held when its holder dies. Should exceed the slowest commit: " \
      "a lane that outlives its lease is refused by the ledger and tries again.")                  \
    X(UNSIGNED, queue_max, "8192", "orders", 1, 1000000,                                           \
      "Orders that may wait for a lane. Beyond that they are answered 503 overloaded at once.")    \
    X(UNSIGNED, rate_user_per_min, "0", "orders", 0, 60000000,                                     \
      "Orders that one user may place per minute at a steady rate, over all processes on one "     \
      "Redis. More are answered 429 rate_limited. 0: no limit.")                                   \
    X(UNSIGNED, rate_user_burst, "5", "orders", 1, 1000000,                                        \
      "Orders that one user may place at once before that rate holds.")                            \
    X(UNSIGNED, rate_address_per_min, "0", "orders", 0, 60000000,                                  \
      "The same for one client address; an IPv6 address counts as its /64. Many users may share "  \
      "an address. 0: no limit.")                                                                  \
    X(UNSIGNED, rate_address_burst, "100", "orders", 1, 1000000,                                   \
      "Orders that may come from one client address at once before that rate holds.")              \
    X(NETWORKS, trusted_proxies, "", "", 0, 0,                                                     \
      "Proxies whose X-Forwarded-For is believed, such as 10.0.0.0/8, fd00::/8: the client is "    \
      "the right-most address that is none of them. Empty: the header is ignored.")                \
    X(UNSIGNED, deadline_ms, "2000", "ms", 50, 60000,                                              \
      "An order is answered within this time of its arrival, if need be with 503.")                \
    X(INTEGER, node_id, "-1", "", -1, 1023,                                                        \
      "This process' number within its order ids. No two running processes of one ledger may "     \
      "share it. -1 lets the ledger assign it.")                                                   \
    X(UNSIGNED, connections_max, "20000", "connections", 1, 1000000,                               \
      "Clients connected at a time, over all fronts. Each takes a file descriptor: fewer when "    \
      "the process may not have so many (ulimit -n).")                                             \
    X(UNSIGNED, redis_timeout_ms, "500", "ms", 10, 60000,                                          \
      "How long Redis may take to connect or to answer before its connection is given up.")        \
    X(UNSIGNED, mysql_timeout_ms, "5000", "ms", 10, 60000,                                         \
      "How long the ledger may take to connect or to answer before its connection is given up.")   \
    X(UNSIGNED, drain_ms, "10000", "ms", 0, 600000,                                                \
      "On SIGTERM or SIGINT, how long orders under way may still take before the process ends.")   \
    X(CHOICE, log_level, "info", CONFIG_LOG_LEVELS, 0, 0,                                          \
      "The least important lines that the log on standard error still gets.")

#define CONFIG_FIELD_ADDRESS char *
#define CONFIG_FIELD_URL char *
#define CONFIG_FIELD_URLS char *
#define CONFIG_FIELD_SECRET char *
#define CONFIG_FIELD_PATH char *
#define CONFIG_FIELD_UNSIGNED unsigned
#define CONFIG_FIELD_INTEGER int
#define CONFIG_FIELD_CHOICE char *
#define CONFIG_FIELD_NETWORKS char *
#define CONFIG_FIELD(type, name, initial, detail, min, max, doc) CONFIG_FIELD_##type name;

/* One field per option. Texts belong to the struct and are never NULL after CONFIG_OK. */
struct config {
    CONFIG_OPTIONS(CONFIG_FIELD)
};

#undef CONFIG_FIELD

#define CONFIG_VALUE_MAX 1024 /* bytes of one value */
#define CONFIG_FILE_MAX 65536 /* bytes of a configuration file */

enum config_result {
    CONFIG_OK,   /* every field is set and valid */
    CONFIG_EXIT, /* --help, --help-config or --version was printed to out: exit 0 */
    CONFIG_BAD,  /* the reason was printed to err: exit 2 */
};

/*
 * Reads the options: defaults, then the file (--config FILE or SECKILL_CONFIG), then the
 * environment, then the flags; each overrides the one before. argv and envp end in NULL as main's
 * do and are not kept. A message names the option, where it stood, its value (passwords masked) and
 * what is allowed. After admin_token_file was read, its token is in admin_token. After CONFIG_EXIT
 * and CONFIG_BAD the struct is all zero. Not for several threads at a time.
 */
enum config_result config_load(struct config *config, int argc, char **argv, char **envp, FILE *out,
                               FILE *err);

/*
 * The options as `name=value name=value …` for a line of the log, without secrets: passwords in
 * URLs and the token are written as ***. Cut to size - 1 bytes, ended by NUL; returns the whole
 * length, as snprintf does.
 */
size_t config_print(const struct config *config, char *buffer, size_t size);

/* Frees the texts and sets everything to zero. Harmless when repeated. */
void config_free(struct config *config);

#endif

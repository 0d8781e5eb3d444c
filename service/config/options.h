/* The table of all options of the daemon, which defines fields, flags, variables and the manual. */
#ifndef SECKILL_SERVICE_CONFIG_OPTIONS_H
#define SECKILL_SERVICE_CONFIG_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#define SECKILL_PROGRAM "seckilld"
#ifndef SECKILL_VERSION
#define SECKILL_VERSION "0.1.0"
#endif

/* The words of each choice, separated by single spaces: only what is built in. */
#define CONFIG_STRATEGIES "segment_lock single_lock atomic optimistic database"
#define CONFIG_LOCKS "redis redlock mysql zookeeper"
#define CONFIG_LOG_LEVELS "debug info warn error"
#define CONFIG_LOG_FORMATS "logfmt json"
#define CONFIG_LOG_PRIORITIES "auto off on"
#define CONFIG_SWITCH "off on"

/*
 * X(type, name, default, detail, min, max, doc). Every option is a line `name = value` of the
 * configuration file, a variable SECKILL_NAME and a flag --name (with dashes). The types:
 *   ADDRESS   host:port, port 0..65535
 *   LISTENER  the same or the path of a Unix socket, empty for none
 *   URL       detail: its scheme; may hold a password
 *   URLS      several or none, separated by spaces or commas; detail: the schemes
 *   SECRETS   visible characters without spaces, commas between secrets; never printed
 *   PATH      a file's name, empty for none
 *   UNSIGNED  min..max, detail: the unit
 *   INTEGER   the same, may be negative
 *   CHOICE    one word of detail
 *   NETWORKS  addresses and networks separated by commas, empty for none
 */
#define CONFIG_OPTIONS(X)                                                                          \
    X(ADDRESS, listen, "127.0.0.1:8080", "", 0, 0,                                                 \
      "Address and port to serve on. Port 0 takes a free one, which the log names. An IPv6 "       \
      "address stands in brackets.")                                                               \
    X(CHOICE, reuse_port, "off", CONFIG_SWITCH, 0, 0,                                              \
      "on lets another daemon of the same user serve on the same address, so that it takes over "  \
      "while this one stops. The daemon then listens only once it is ready.")                      \
    X(LISTENER, admin_listen, "", "", 0, 0,                                                        \
      "Where to serve /admin/, /healthz, /servingz, /readyz, /metrics and /dashboard, and "        \
      "nowhere else: an address and port, or a Unix socket as unix:/path or /path, which the "     \
      "daemon makes with mode 0660. Empty: on the address of listen, like all other calls.")       \
    X(CHOICE, demo, "off", CONFIG_SWITCH, 0, 0,                                                    \
      "on serves /demo beside the calls of buyers: a page that buys, pays and cancels, whose "     \
      "source shows how the calls are used. It has no token, so it pays only without shop_token. " \
      "The dashboard then shows its figures to all.")                                              \
    X(URL, redis_url, "redis://127.0.0.1:6379/0", "redis", 0, 0,                                   \
      "Redis, which holds the locks and the segments' counters: "                                  \
      "redis://[user:password@]host:port/db, rediss:// over TLS, redis+unix:///path, "             \
      "redis+sentinel://host,host/name or redis+cluster://host,host; docs/deployment.md has "      \
      "their options. It may lose everything at any time.")                                        \
    X(URL, mysql_url, "mysql://seckill@127.0.0.1:3306/seckill", "mysql", 0, 0,                     \
      "The ledger, MariaDB or MySQL, which holds orders and units sold: "                          \
      "mysql://user:password@host:port/db, with ?socket=/path for a local socket, or mysqls:// "   \
      "over TLS; docs/deployment.md has its options.")                                             \
    X(CHOICE, update_tables, "on", CONFIG_SWITCH, 0, 0,                                            \
      "on: the daemon creates and upgrades its tables when it starts. off: it only checks that "   \
      "they are up to date, and refuses orders until " SECKILL_PROGRAM " --migrate has run, with " \
      "an account that may change tables.")                                                        \
    X(SECRETS, admin_token, "", "", 0, 0,                                                          \
      "The token that callers of /admin/ send as Authorization: Bearer TOKEN; several while they " \
      "change over to another. While it is empty, the daemon refuses these calls. Other users of " \
      "the machine can see flags and variables: prefer admin_token_file.")                         \
    X(PATH, admin_token_file, "", "", 0, 0,                                                        \
      "A file with one admin token a line, which SIGHUP reads again. Excludes admin_token.")       \
    X(SECRETS, shop_token, "", "", 0, 0,                                                           \
      "The token that the shop sends likewise to pay and to cancel orders, and to list a user's "  \
      "orders. While it is empty, whoever connects may do so. Prefer shop_token_file.")            \
    X(PATH, shop_token_file, "", "", 0, 0,                                                         \
      "A file with one shop token a line, which SIGHUP reads again. Excludes shop_token.")         \
    X(UNSIGNED, order_workers, "2", "threads", 1, 64,                                              \
      "Threads that carry batches of orders through Redis and the ledger, each with connections "  \
      "of its own. More than two are busy only when orders fill batches of max_batch.")            \
    X(UNSIGNED, http_threads, "1", "threads", 1, 64,                                               \
      "Threads that read requests and write answers.")                                             \
    X(UNSIGNED, max_batch, "512", "orders", 1, 512,                                                \
      "The most orders that share one lock and one commit. Below that a batch is half of the "     \
      "orders in flight. 1 is the classic scheme: a lock and a commit per order.")                 \
    X(CHOICE, strategy, "segment_lock", CONFIG_STRATEGIES, 0, 0,                                   \
      "How the daemon takes units without overselling.")                                           \
    X(CHOICE, lock, "redis", CONFIG_LOCKS, 0, 0,                                                   \
      "Which distributed lock guards a segment, for the strategy segment_lock. The daemon takes "  \
      "each of the others around the one in Redis, which costs further round trips.")              \
    X(URLS, lock_servers, "", "redis mysql zookeeper", 0, 0,                                       \
      "The servers of that lock: three or more independent redis:// for redlock; a mysql:// for "  \
      "mysql, the ledger if there is none; zookeeper://host:port,host:port for zookeeper.")        \
    X(UNSIGNED, lease_ms, "3000", "ms", 100, 60000,                                                \
      "How long a segment stays locked after the lock's holder has died. Choose more than the "    \
      "slowest commit takes: the ledger refuses a batch that outlives its lease, and the order "   \
      "worker tries again.")                                                                       \
    X(UNSIGNED, queue_max, "8192", "orders", 1, 1000000,                                           \
      "Orders that may wait for an order worker. The daemon answers further ones with 503 "        \
      "overloaded at once.")                                                                       \
    X(UNSIGNED, call_queue_max, "4096", "calls", 1, 4096,                                          \
      "Calls of one kind (look-ups, payments, cancels, lists, admin calls) that may wait for the " \
      "worker of that kind; of some kinds fewer may. The daemon answers further ones with 503 "    \
      "overloaded at once.")                                                                       \
    X(UNSIGNED, rate_user_per_min, "0", "orders", 0, 60000000,                                     \
      "Orders that one user may place per minute at a steady rate, over all daemons on one "       \
      "Redis. The daemon answers further ones with 429 rate_limited. 0: no limit.")                \
    X(UNSIGNED, rate_user_burst, "5", "orders", 1, 1000000,                                        \
      "Orders that one user may place at once before that rate holds.")                            \
    X(UNSIGNED, rate_address_per_min, "0", "orders", 0, 60000000,                                  \
      "The same for one client address; an IPv6 address counts as its /64. Many users may share "  \
      "an address. 0: no limit.")                                                                  \
    X(UNSIGNED, rate_address_burst, "100", "orders", 1, 1000000,                                   \
      "Orders that may come from one client address at once before that rate holds.")              \
    X(NETWORKS, trusted_proxies, "", "", 0, 0,                                                     \
      "Proxies whose X-Forwarded-For the daemon believes, such as 10.0.0.0/8, fd00::/8: the "      \
      "client is the right-most address that is no such proxy. Empty: the daemon ignores the "     \
      "header.")                                                                                   \
    X(UNSIGNED, deadline_ms, "2000", "ms", 50, 60000,                                              \
      "The daemon answers an order within this time from its first line, if need be with 503. "    \
      "Clients should wait longer. docs/integration.md has the times of the other calls.")         \
    X(UNSIGNED, pod, "0", "", 0, 15,                                                               \
      "The number of this daemon's pod, which is a ledger with its daemons: it stands in the ids " \
      "of their orders, and a proxy before several pods routes by it. A ledger keeps the number "  \
      "that it was first used with; a daemon with another one ends with status 2.")                \
    X(INTEGER, node_id, "-1", "", -1, 1023,                                                        \
      "The number of this daemon within its order ids, which it leases from the ledger for 10 s "  \
      "at a time. -1: any that is free. A daemon whose number another one uses ends with status "  \
      "2; after a crash it waits for the end of its former lease.")                                \
    X(UNSIGNED, connections_max, "20000", "connections", 1, 1000000,                               \
      "Clients connected at a time, over all HTTP threads. Each takes a file descriptor: the "     \
      "daemon accepts fewer clients when it may not open that many (ulimit -n). For a further "    \
      "client it closes the connection that has waited longest for its own.")                      \
    X(UNSIGNED, idle_ms, "120000", "ms", 100, 3600000,                                             \
      "How long a connection may wait for its client: from when it is accepted, and again from "   \
      "each answer, to the end of a request's first line; and for the client to take an answer.")  \
    X(UNSIGNED, redis_timeout_ms, "500", "ms", 10, 60000,                                          \
      "How long Redis may take to connect or to answer before the daemon closes the connection.")  \
    X(UNSIGNED, mysql_timeout_ms, "5000", "ms", 10, 60000,                                         \
      "How long the ledger may take to connect or to answer before the daemon closes the "         \
      "connection.")                                                                               \
    X(UNSIGNED, retention_days, "0", "days", 0, 36500,                                             \
      "How long after the end of a round, by a reset or with its sale, the daemons keep what "     \
      "only running rounds need: the idempotency keys of its orders, what its users had, and "     \
      "its orders' places in GET /user/{user_id}/orders. Orders themselves stay. 0 keeps all.")    \
    X(UNSIGNED, events_retention_h, "0", "hours", 0, 8760,                                         \
      "How long GET /events and webhooks can read what has happened to orders; choose more than "  \
      "a reader may be down. All daemons of a pod need the same value. 0: nothing is noted, and "  \
      "there are no events.")                                                                      \
    X(NETWORKS, webhook_networks, "", "", 0, 0,                                                    \
      "Networks of your own that webhooks may go to, such as 10.20.0.0/16, also by http. All "     \
      "other webhooks go to public addresses, by https.")                                          \
    X(PATH, webhook_ca_file, "", "", 0, 0,                                                         \
      "A file with the certificates of the authorities that webhooks' receivers are checked "      \
      "against. Empty: those of the system.")                                                      \
    X(UNSIGNED, lame_duck_ms, "0", "ms", 0, 600000,                                                \
      "On SIGTERM or SIGINT, how long the daemon goes on serving while /servingz says draining, "  \
      "so that load balancers see it and send no more clients. Choose more than they need for "    \
      "that.")                                                                                     \
    X(UNSIGNED, drain_ms, "10000", "ms", 0, 600000,                                                \
      "After that, how long requests under way may still take before the daemon ends.")            \
    X(CHOICE, log_level, "info", CONFIG_LOG_LEVELS, 0, 0,                                          \
      "The least important events that the daemon still writes to the log, standard error.")       \
    X(CHOICE, log_format, "logfmt", CONFIG_LOG_FORMATS, 0, 0,                                      \
      "How a line of the log looks: pairs key=value, or one JSON object.")                         \
    X(CHOICE, log_priority, "auto", CONFIG_LOG_PRIORITIES, 0, 0,                                   \
      "Whether each line begins with its priority as <N>, which systemd's journal takes. auto: "   \
      "when standard error is the journal.")                                                       \
    X(UNSIGNED, log_every, "10", "s", 0, 3600,                                                     \
      "How often the log has a line of what goes on (event=progress), for each of the five "       \
      "busiest sales: nothing while no orders come. 0: never.")                                    \
    X(UNSIGNED, access_log, "0", "answers", 0, 1000000000,                                         \
      "One of how many answers leaves a line in the log (event=request): 1 for each, 0 for none. " \
      "Answers with a status of 500 and above always do (event=request_failed), but for those to " \
      "probes, /metrics and the dashboard; 20 a second at most of each HTTP thread.")

#define CONFIG_FIELD_ADDRESS char *
#define CONFIG_FIELD_LISTENER char *
#define CONFIG_FIELD_URL char *
#define CONFIG_FIELD_URLS char *
#define CONFIG_FIELD_SECRETS char *
#define CONFIG_FIELD_PATH char *
#define CONFIG_FIELD_UNSIGNED unsigned
#define CONFIG_FIELD_INTEGER int
#define CONFIG_FIELD_CHOICE char *
#define CONFIG_FIELD_NETWORKS char *
#define CONFIG_FIELD(type, name, initial, detail, min, max, doc) CONFIG_FIELD_##type name;

/* The number of each option, in the order of the table. */
#define OPTION(type, name, initial, detail, min, max, doc) OPTION_##name,
enum { CONFIG_OPTIONS(OPTION) OPTION_COUNT };
#undef OPTION

/* The daemon's mode of operation. */
enum config_mode { CONFIG_SERVE, CONFIG_CHECK, CONFIG_MIGRATE, CONFIG_PRINT_GRANTS };

/* One field per option. Texts belong to the struct and are never NULL after CONFIG_OK. */
struct config {
    enum config_mode mode;
    CONFIG_OPTIONS(CONFIG_FIELD)
};

#undef CONFIG_FIELD

#define CONFIG_VALUE_MAX 2048 /* bytes of one value */

enum { OPTION_NAME_SIZE = 32 }; /* bytes of a flag's or variable's name, with the NUL */

enum option_type {
    ADDRESS,
    LISTENER,
    URL,
    URLS,
    SECRETS,
    PATH,
    UNSIGNED,
    INTEGER,
    CHOICE,
    NETWORKS
};

/* A row of the table above. */
struct option {
    enum option_type type;
    const char *name;
    const char *initial;
    const char *detail;
    long min, max;
    const char *doc;
    size_t offset; /* of its field in struct config */
};

extern const struct option config_options[OPTION_COUNT];

/* Write an option's name as a flag, without the dashes, and as an environment variable. */
void option_write_flag(const char *name, char flag_out[OPTION_NAME_SIZE]);
void option_write_variable(const char *name, char variable_out[OPTION_NAME_SIZE]);

#endif

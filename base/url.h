/* Reads redis://, mysql://, zookeeper:// and etcd:// URLs: where a server is and who logs in.
 * Drivers use it, and so do checks of a URL before a driver gets it. */
#ifndef BASE_URL_H
#define BASE_URL_H

#include <stdbool.h>
#include <stddef.h>

enum {
    URL_PART_SIZE = 256, /* bytes of a decoded part, with its NUL */
    URL_USER_SIZE = 129,
    URL_SOCKET_SIZE = 108,      /* what the address of a Unix socket has room for */
    URL_SERVERS_MAX = 16,       /* hosts of one URL */
    URL_DATABASE_MAX = 1 << 20, /* the largest number of a database of Redis */
    URL_ERROR_SIZE = 256,       /* bytes of the longest text in error_out */
    URL_PLACE_SIZE = 300,       /* bytes of a place, with its NUL */
};

/* The forms, by the family of schemes that each belongs to:
 *
 *   redis      redis://[user[:password]@]host[:port][/database]        database: a number
 *              redis+unix://[user[:password]@]/path/of/socket[?db=database]
 *              redis+sentinel://[user[:password]@]host[:port][,host[:port]...]/name[/database]
 *              redis+cluster://[user[:password]@]host[:port][,host[:port]...]
 *   mysql      mysql://[user[:password]@]host[:port][,host[:port]...]/database[?socket=/path]
 *   zookeeper  zookeeper://[user:password@]host[:port][,host[:port]...][/path]
 *   etcd       etcd://[user:password@]host[:port][,host[:port]...]
 *
 * With rediss in the place of redis (but not for a socket), mysqls in that of mysql or etcds in
 * that of etcd, the connections use TLS. Its options follow the question mark, with & between them:
 * ca=/path of the authorities' certificates (else the system's), cert=/path and key=/path of the
 * client's own. redis+sentinel has the options sentinel_user= and sentinel_password= for the
 * sentinels; the user of the URL is for the servers, and `name` is the master's name at the
 * sentinels.
 *
 * A URL has visible ASCII characters only. %XX stands for any byte but NUL in each part but the
 * port, a number and a host in brackets; an IPv6 address stands in brackets. The user and password
 * end at the last @ before the path, and a path has none (%40). With a socket the host of mysql://
 * may be missing. Schemes may be of capital letters. */

enum url_kind {
    URL_SINGLE,   /* one server; of mysql:// and etcd:// several, which hold the same data */
    URL_SENTINEL, /* the servers are sentinels, which know the master `name` */
    URL_CLUSTER,  /* the servers are some of the nodes of a cluster */
};

struct url_server {
    char host[URL_PART_SIZE];
    unsigned port; /* 6379, 26379 of a sentinel, 3306, 2181 or 2379 unless the URL says another */
};

/* Parts that the URL does not have are empty. */
struct url {
    enum url_kind kind;
    bool tls;
    size_t server_count; /* 0 with redis+unix://; of several zookeeper:// hosts the last is kept */
    struct url_server servers[URL_SERVERS_MAX];
    char user[URL_USER_SIZE];
    char password[URL_PART_SIZE];
    char database[URL_PART_SIZE]; /* of mysql:// */
    unsigned database_number;     /* of redis:// */
    char socket[URL_PART_SIZE];
    char name[URL_PART_SIZE]; /* of Sentinel's master */
    char sentinel_user[URL_USER_SIZE];
    char sentinel_password[URL_PART_SIZE];
    char ca[URL_PART_SIZE], cert[URL_PART_SIZE], key[URL_PART_SIZE]; /* files, for TLS */
};

/* Reads a URL of the family `scheme`: "redis", "mysql", "zookeeper" or "etcd". False with the
 * reason in `error_out`, "not of the form redis://...: the port is not a number from 1 to 65535".
 * The reason quotes nothing of the URL, where a secret may be anywhere. Any thread; the caller owns
 * all. */
bool url_parse(const char *text, const char *scheme, struct url *url_out, char *error_out,
               size_t error_size);

/* The plainest form of a family's URLs, as above: for messages and help. */
const char *url_form(const char *scheme);

/* Returns the family of the text's scheme, as url_parse takes it; NULL: the scheme is unknown. */
const char *url_scheme(const char *text);

/* Two ways to write a URL into logs and messages without its secrets.
 *
 * url_place writes the addresses of a URL's servers: "host:port", "[::1]:port", several with commas
 * between, or its socket; "?" for a text that is not a URL of the family. url_mask copies the text
 * and writes *** in the place of each password; the text need not be a URL: its author may have
 * mistyped one with a secret in it. Both cut to what fits. */
void url_place(const char *text, const char *scheme, char place_out[URL_PLACE_SIZE]);
void url_mask(const char *text, char *masked_out, size_t size);

/* Writes "host:port", with brackets around an IPv6 address. */
void url_server_place(const char *host, unsigned port, char place_out[URL_PLACE_SIZE]);

/* Returns the end of the scheme's name, where "://" follows; NULL when the text has none. */
const char *url_scheme_end(const char *text);

/* Returns the text behind the scheme and the login, from the first host to the end. */
const char *url_hosts(const char *text);

#endif

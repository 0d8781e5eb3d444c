/* Where a server is and who enters it: the one reader of redis://, mysql:// and zookeeper:// URLs,
 * for the drivers and for whoever checks a URL before a driver gets it. */
#ifndef BASE_URL_H
#define BASE_URL_H

#include <stdbool.h>
#include <stddef.h>

enum {
    URL_PART_SIZE = 256, /* bytes of a decoded part, with its NUL */
    URL_USER_SIZE = 129,
    URL_ERROR_SIZE = 192, /* bytes of the longest text in error_out */
    URL_PLACE_SIZE = 300, /* bytes of a place, with its NUL */
};

/* The forms:
 *
 *   redis://[user[:password]@]host[:port][/database]     database: a number
 *   mysql://[user[:password]@]host[:port]/database[?socket=/path]
 *   zookeeper://host[:port][,host[:port]...][/path]
 *
 * A URL has visible ASCII characters only. %XX stands for any byte but NUL in each part but the
 * port, a number and a host in brackets; an IPv6 address stands in brackets. The user and password
 * end at the last @ before the path, and a path has none (%40). With a socket the host of mysql://
 * may be missing. Schemes may be of capital letters. */

/* Parts that the URL does not have are empty. */
struct url {
    char host[URL_PART_SIZE];
    char user[URL_USER_SIZE];
    char password[URL_PART_SIZE];
    char database[URL_PART_SIZE]; /* of mysql:// */
    char socket[URL_PART_SIZE];
    unsigned port;            /* 6379 or 3306 unless the URL says another */
    unsigned database_number; /* of redis:// */
};

/* Reads a URL of the scheme, "redis", "mysql" or "zookeeper"; of the last only whether it has the
 * form, as its client library takes the list of hosts itself. False with the reason in `error_out`,
 * "not of the form redis://...: the port is not a number from 1 to 65535". The reason quotes
 * nothing of the URL, as a secret may stand anywhere in it. Any thread; the caller owns all. */
bool url_parse(const char *text, const char *scheme, struct url *url_out, char *error_out,
               size_t error_size);

/* The form of a known scheme's URLs, as above: for messages and help. */
const char *url_form(const char *scheme);

/* The two ways in which logs and messages write a URL. Both keep secrets back.
 *
 * url_place writes where the server of a URL is: "host:port", "[::1]:port" or its socket; "?" for
 * a text that is no URL of the scheme. url_mask writes a text that was given as a URL as it is but
 * for the password, in whose place it puts ***; it need not be a URL: its author may have mistyped
 * one with a secret in it. Cuts what does not fit. */
void url_place(const char *text, const char *scheme, char place_out[URL_PLACE_SIZE]);
void url_mask(const char *text, char *masked_out, size_t size);

/* The end of the scheme's name, when "://" stands behind it: else NULL. */
const char *url_scheme_end(const char *text);

#endif

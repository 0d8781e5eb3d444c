/* Where a database is and who enters it, from mysql://user[:password]@host[:port]/db. */
#ifndef SQL_DB_URL_H
#define SQL_DB_URL_H

#include <stdbool.h>

enum { DB_URL_FIELD_MAX = 256 }; /* bytes of a decoded part, with the NUL */

/* Parts that the URL does not have are empty. */
struct db_url {
    char host[DB_URL_FIELD_MAX], user[DB_URL_FIELD_MAX], password[DB_URL_FIELD_MAX];
    char database[DB_URL_FIELD_MAX], socket[DB_URL_FIELD_MAX];
    unsigned port; /* 3306 unless the URL says another */
};

/* Reads mysql://user[:password]@host[:port]/db[?socket=/path], with %XX for any character but NUL
 * in each part but the port. False when the text is not of that form or a part is too long: the
 * struct is then of no use. */
bool db_url_parse(const char *url, struct db_url *url_out);

#endif

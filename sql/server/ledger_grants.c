/* The rights that accounts need on the ledger's server, as SQL. */
#include "sql/server/server.h"

#include <assert.h>
#include <string.h>

#include "base/url.h"

enum { ACCOUNT_MAX = 32 - (sizeof "_migrate" - 1) }; /* MySQL 8 takes names of 32 characters */

/* Serving reads and writes rows; it makes no table, and changes none. */
static const char serving[] = "SELECT, INSERT, UPDATE, DELETE";
static const char migrating[] = "SELECT, INSERT, UPDATE, DELETE, CREATE, ALTER, INDEX, DROP";

/* In the name of a database that rights are given on, _ and % stand for any characters. */
static void print_database(FILE *out, const char *name)
{
    putc('`', out);
    for (; *name; name++) {
        if (*name == '_' || *name == '%')
            putc('\\', out);
        if (*name == '`')
            putc('`', out);
        putc(*name, out);
    }
    putc('`', out);
}

static void print_account(FILE *out, const struct url *url, const char *suffix)
{
    putc('\'', out);
    for (const char *at = url->user; *at; at++) {
        if (*at == '\'' || *at == '\\')
            putc('\\', out);
        putc(*at, out);
    }
    fprintf(out, "%s'@'%s'", suffix, url->socket[0] ? "localhost" : "%");
}

static void print_rights(FILE *out, const struct url *url, const char *suffix, const char *rights)
{
    fprintf(out, "-- CREATE USER ");
    print_account(out, url, suffix);
    fprintf(out, " IDENTIFIED BY 'a password';\nGRANT %s\n  ON ", rights);
    print_database(out, url->database);
    fprintf(out, ".*\n  TO ");
    print_account(out, url, suffix);
    fprintf(out, ";\n-- To read in the log who holds rows or tables for long:\n");
    fprintf(out, "-- GRANT PROCESS ON *.* TO ");
    print_account(out, url, suffix);
    fprintf(out, ";\n");
}

bool ledger_grants_print(FILE *out, const char *url_text)
{
    char error[URL_ERROR_SIZE];
    struct url url;
    bool parsed = url_parse(url_text, "mysql", &url, error, sizeof error);
    assert(parsed); /* whoever gives a configuration has checked it */
    if (url.user[0] == '\0' || strlen(url.user) > ACCOUNT_MAX)
        return false;
    fprintf(out, "-- The account that serves, with update_tables = off%s.\n",
            url.socket[0] ? "" : "; instead of % name the daemons' hosts");
    print_rights(out, &url, "", serving);
    fprintf(out, "\n-- The account for seckilld --migrate.\n");
    print_rights(out, &url, "_migrate", migrating);
    return true;
}

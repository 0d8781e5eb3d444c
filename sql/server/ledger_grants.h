/* The rights that accounts need on the ledger's server, as SQL. */
#ifndef SQL_LEDGER_GRANTS_H
#define SQL_LEDGER_GRANTS_H

#include <stdbool.h>
#include <stdio.h>

/* Prints statements for an administrator of the server: one account that serves, the user of `url`,
 * and one that changes tables, its name with _migrate behind. Creating them, with their passwords,
 * stands in comments; no password is printed. For MariaDB and MySQL 8. Connects nowhere. False,
 * having printed nothing, when `url` names no user or has an account's name that is too long. */
bool ledger_grants_print(FILE *out, const char *url);

#endif

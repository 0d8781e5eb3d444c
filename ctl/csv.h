/* Lines of CSV as the service's listing has them (RFC 4180): only a user id may need quotes. */
#ifndef SECKILL_CTL_CSV_H
#define SECKILL_CTL_CSV_H

#include "base/user_id.h"

enum { CSV_USER_SIZE = 2 * USER_ID_SIZE + 2 };

/* Takes the next field off the line, without its quotes, in place. NULL behind the last one; `rest`
 * is NULL from then on. */
char *csv_next(char **rest);

/* A user id as a field. One that begins as a formula does in a spreadsheet, or with a ', gets a '
 * in front. Returns `out`. */
const char *csv_user(const char *user_id, char out[CSV_USER_SIZE]);

/* The user id of a field that csv_next gave. */
const char *csv_user_plain(const char *field);

#endif

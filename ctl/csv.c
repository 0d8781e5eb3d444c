/* Lines of CSV as the service's listing has them (RFC 4180): only a user id may need quotes. */
#include "ctl/csv.h"

#include <stddef.h>
#include <string.h>

/* Unquotes in place: "" stands for one quote. Returns where the field ends in the line. */
static char *unquote(char *from, char *to)
{
    while (*from != '\0' && (*from != '"' || *++from == '"'))
        *to++ = *from++;
    char *end = from;
    *to = '\0'; /* at or before the end, as the opening quote is gone */
    return end;
}

char *csv_next(char **rest)
{
    char *field = *rest;
    if (!field)
        return NULL;
    if (*field != '"')
        return strsep(rest, ",");
    char *end = unquote(field + 1, field);
    *rest = *end == ',' ? end + 1 : NULL; /* the field ends before its closing quote */
    return field;
}

const char *csv_user(const char *user_id, char out[CSV_USER_SIZE])
{
    bool quoted = user_id[strcspn(user_id, "\",")] != '\0';
    char *to = out;
    if (quoted)
        *to++ = '"';
    if (user_id[0] != '\0' && strchr("=+-@'", user_id[0]))
        *to++ = '\'';
    for (const char *from = user_id; *from; from++) {
        if (*from == '"')
            *to++ = '"';
        *to++ = *from;
    }
    if (quoted)
        *to++ = '"';
    *to = '\0';
    return out;
}

const char *csv_user_plain(const char *field)
{
    return field[0] == '\'' ? field + 1 : field;
}

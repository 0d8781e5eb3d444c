/* Converts moments between the forms of the interface and of the ledger's tables. */
#include "sql/ledger/ledger.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "sql/db/sql_text.h"

void ledger_time_format(int64_t ms, char out[LEDGER_TIME_SIZE])
{
    struct tm utc;
    time_t seconds = (time_t)(ms / 1000);
    char text[64];
    gmtime_r(&seconds, &utc);
    snprintf(text, sizeof text, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900,
             utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, (int)(ms % 1000));
    memcpy(out, text, LEDGER_TIME_SIZE - 1);
    out[LEDGER_TIME_SIZE - 1] = '\0';
}

/* MySQL writes a blank where ISO 8601 has a T, and no Z after UTC. */
void ledger_time_read(char out[LEDGER_TIME_SIZE], const char *column)
{
    out[0] = '\0';
    if (!column)
        return;
    snprintf(out, LEDGER_TIME_SIZE, "%.23sZ", column);
    out[10] = 'T';
}

void ledger_time_text(struct sql_text *sql, int64_t ms)
{
    char time[LEDGER_TIME_SIZE];
    ledger_time_format(ms, time);
    time[LEDGER_TIME_SIZE - 2] = '\0'; /* without the Z, which MySQL does not take */
    sql_printf(sql, "%s", ms == 0 ? NULL : time);
}

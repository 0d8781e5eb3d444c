/* Reads files of comma-separated values, as spreadsheets and payment providers write them. */
#define _GNU_SOURCE /* getdelim */
#include "ctl/csv.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/output/say.h"

enum { FIELDS_MAX = 128 };

/* A record's fields lie in the file's text. */
struct record {
    char *fields[FIELDS_MAX];
    size_t count; /* FIELDS_MAX: too many; 0: a quote stays open */
};

/* Takes a field off the text, which goes on behind it. Returns the character that ended it. */
static char take_field(char **text, size_t *lines, char **field_out)
{
    char *from = *text, *to = from;
    bool quoted = false;
    *field_out = from;
    for (; *from && (quoted || (*from != ',' && *from != '\n')); from++) {
        *lines += *from == '\n';
        if (*from != '"')
            *to++ = *from;
        else if (quoted && from[1] == '"')
            *to++ = *from++;
        else
            quoted = !quoted;
    }
    char end = quoted ? '"' : *from;
    *text = *from ? from + 1 : from;
    to -= end != ',' && to > *field_out && to[-1] == '\r';
    *to = '\0';
    return end;
}

static void take_record(char **text, size_t *lines, struct record *record)
{
    char end = ',';
    for (record->count = 0; end == ',' && record->count < FIELDS_MAX; record->count++)
        end = take_field(text, lines, &record->fields[record->count]);
    ++*lines;
    if (end == '"')
        record->count = 0;
}

/* Sets where the columns stand. False, with nothing set, if the record does not name them all. */
static bool read_header(const struct csv *csv, const struct record *record, size_t *places_out)
{
    size_t found[CSV_COLUMNS_MAX];
    for (size_t i = 0; i < csv->count; i++) {
        found[i] = 0;
        while (found[i] < record->count && strcmp(record->fields[found[i]], csv->names[i]) != 0)
            found[i]++;
        if (found[i] == record->count)
            return false;
    }
    memcpy(places_out, found, csv->count * sizeof *found);
    return true;
}

/* Returns the line that is wrong; 0: none is. */
static size_t read_records(const struct csv *csv, char *text, void *argument)
{
    struct record record;
    char *wanted[CSV_COLUMNS_MAX];
    size_t places[CSV_COLUMNS_MAX] = {0, 1}, lines = 0, width = 0;
    while (*text) {
        size_t from = lines + 1;
        take_record(&text, &lines, &record);
        if (record.count == 1 && record.fields[0][strspn(record.fields[0], " \t")] == '\0')
            continue;
        bool header = width == 0 && read_header(csv, &record, places);
        if (width == 0)
            width = header ? record.count : csv->count;
        if (record.count != width || width == FIELDS_MAX)
            return from;
        for (size_t i = 0; i < csv->count; i++)
            wanted[i] = record.fields[places[i]];
        if (!header && !csv->take(argument, wanted, from))
            return from;
    }
    return 0;
}

bool csv_read(const struct csv *csv, const char *path, void *argument)
{
    static const char mark[] =
        "\xef\xbb\xbf"; /* the byte order mark, by which spreadsheets begin */
    bool standard = strcmp(path, "-") == 0;
    char *text = NULL;
    size_t size = 0, wrong = 0;
    FILE *in = standard ? stdin : fopen(path, "re");
    bool some = in && getdelim(&text, &size, '\0', in) > 0, good = in && !ferror(in);
    if (!good)
        say("%s: %s", path, strerror(errno));
    else if (!feof(in))
        say("%s: there is a NUL in it", path);
    else if (some)
        wrong = read_records(
            csv, text + (strncmp(text, mark, sizeof mark - 1) == 0 ? sizeof mark - 1 : 0),
            argument);
    if (wrong > 0)
        say("%s:%zu: not %s", path, wrong, csv->what);
    good = good && feof(in) && wrong == 0;
    if (in && !standard)
        fclose(in);
    free(text);
    return good;
}

/* Reads files of comma-separated values, as spreadsheets and payment providers write them. */
#include "ctl/csv.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "ctl/output/say.h"

enum { RECORD_SIZE = 16384, FIELDS_MAX = 128 };

struct record {
    char text[RECORD_SIZE]; /* the fields, each with its NUL */
    char *fields[FIELDS_MAX];
    size_t count, used;
    bool bad; /* a quote stays open, there is a NUL in it, or it is too large */
};

static void put(struct record *record, int byte)
{
    if (record->used + 1 < RECORD_SIZE)
        record->text[record->used++] = (char)byte;
    else
        record->bad = true;
}

static void begin_field(struct record *record)
{
    if (record->count < FIELDS_MAX)
        record->fields[record->count++] = record->text + record->used;
    else
        record->bad = true;
}

/* Reads a record and counts its lines. False at the file's end. */
static bool read_record(FILE *in, struct record *record, size_t *lines)
{
    bool quoted = false;
    int byte = getc(in);
    if (byte == EOF)
        return false;
    record->count = record->used = 0;
    record->bad = false;
    begin_field(record);
    for (; byte != EOF && (quoted || byte != '\n'); byte = getc(in)) {
        *lines += byte == '\n';
        if (byte == '"') {
            int next = quoted ? getc(in) : EOF;
            if (next == '"')
                put(record, '"');
            else
                quoted = !quoted;
            if (next != '"' && next != EOF)
                ungetc(next, in);
        } else if (byte == ',' && !quoted) {
            put(record, '\0');
            begin_field(record);
        } else if (byte != '\r' || quoted) {
            record->bad |= byte == '\0';
            put(record, byte);
        }
    }
    ++*lines;
    record->bad |= quoted;
    record->text[record->used] = '\0';
    return true;
}

/* Sets where the columns stand. False if the record does not name them all. */
static bool read_header(const struct csv *csv, const struct record *record, size_t *places_out)
{
    for (size_t i = 0; i < csv->count; i++) {
        size_t place = 0;
        while (place < record->count && strcmp(record->fields[place], csv->names[i]) != 0)
            place++;
        places_out[i] = place;
        if (place == record->count)
            return false;
    }
    return true;
}

/* Returns the line that is wrong; 0: none is. */
static size_t read_records(const struct csv *csv, FILE *in, void *argument)
{
    static const char mark[] =
        "\xef\xbb\xbf"; /* the byte order mark, by which spreadsheets begin */
    struct record record;
    char *wanted[CSV_COLUMNS_MAX];
    size_t places[CSV_COLUMNS_MAX], lines = 0, from = 1, width = 0;
    for (; read_record(in, &record, &lines); from = lines + 1) {
        if (from == 1 && strncmp(record.fields[0], mark, sizeof mark - 1) == 0)
            record.fields[0] += sizeof mark - 1;
        if (record.count == 1 && record.fields[0][strspn(record.fields[0], " \t")] == '\0')
            continue;
        bool header = width == 0 && read_header(csv, &record, places);
        for (size_t i = 0; width == 0 && !header && i < csv->count; i++)
            places[i] = i;
        width = width > 0 ? width : header ? record.count : csv->count;
        if (record.bad || record.count != width)
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
    bool standard = strcmp(path, "-") == 0;
    FILE *in = standard ? stdin : fopen(path, "re");
    size_t wrong = in ? read_records(csv, in, argument) : 0;
    bool good = in && wrong == 0 && !ferror(in);
    if (wrong > 0)
        say("%s:%zu: not %s", path, wrong, csv->what);
    else if (!good)
        say("%s: %s", path, strerror(errno));
    if (in && !standard)
        fclose(in);
    return good;
}

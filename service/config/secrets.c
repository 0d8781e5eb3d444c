/* Several secrets of equal worth, such as the old and the new token while clients change over. */
#include "service/config/secrets.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "service/config/text.h"

bool secrets_parse(const char *text, struct secrets *secrets_out)
{
    size_t count = 0;
    secrets_out->count = 0;
    if (!text_visible(text))
        return false;
    for (const char *at = text; *text; at++) {
        size_t length = strcspn(at, ",");
        if (length == 0 || length > SECRET_MAX || count == SECRETS_MAX)
            return false;
        memcpy(secrets_out->list[count], at, length);
        secrets_out->list[count++][length] = '\0';
        at += length;
        if (!*at)
            break;
    }
    secrets_out->count = count;
    return true;
}

/* Replaces the lines by one list. False when they are not secrets. */
static bool join_lines(char *lines, char text_out[SECRETS_TEXT_SIZE])
{
    char *rest = NULL;
    size_t length = 0;
    struct secrets secrets;
    text_out[0] = '\0';
    for (char *line = strtok_r(lines, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest)) {
        line = text_trim(line);
        if (!*line)
            continue;
        size_t left = SECRETS_TEXT_SIZE - length;
        int written = snprintf(text_out + length, left, "%s%s", length > 0 ? "," : "", line);
        if (strchr(line, ',') || written < 0 || (size_t)written >= left)
            return false;
        length += (size_t)written;
    }
    return length > 0 && secrets_parse(text_out, &secrets);
}

bool secrets_read_file(const char *path, char text_out[SECRETS_TEXT_SIZE], const char **reason_out)
{
    char *lines = text_read_file(path, reason_out);
    if (!lines)
        return false;
    bool good = join_lines(lines, text_out);
    if (!good)
        *reason_out = "the file must hold one line or up to 8 lines, each of 1 to 256 visible "
                      "ASCII characters without spaces and commas";
    free(lines);
    return good;
}

/* Reads small files of settings or tokens, and checks their texts. */
#include "base/config_file.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memory.h"

char *text_read_file(const char *path, const char **reason_out)
{
    *reason_out = NULL;
    FILE *stream = fopen(path, "re");
    if (!stream) {
        *reason_out = strerror(errno);
        return NULL;
    }
    char *text = memory_must(malloc(CONFIG_FILE_MAX + 1));
    /* Reads one byte more than is allowed: a file that is too large fills it. */
    size_t length = fread(text, 1, CONFIG_FILE_MAX + 1, stream);
    if (ferror(stream))
        *reason_out = strerror(errno);
    else if (length > CONFIG_FILE_MAX)
        *reason_out = "the file is too large";
    else if (memchr(text, '\0', length))
        *reason_out = "the file holds a NUL byte"; /* it would hide the lines behind it */
    else
        text[length] = '\0';
    fclose(stream);
    if (*reason_out) {
        free(text);
        return NULL;
    }
    return text;
}

char *text_trim(char *text)
{
    while (isspace((unsigned char)*text))
        text++;
    size_t length = strlen(text);
    while (length > 0 && isspace((unsigned char)text[length - 1]))
        length--;
    text[length] = '\0';
    return text;
}

bool text_visible(const char *text)
{
    for (; *text; text++)
        if (*text <= ' ' || *text >= 0x7f)
            return false;
    return true;
}

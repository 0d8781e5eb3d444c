/* Runs a target on the inputs that are kept, without libFuzzer.
 *
 * usage: TARGET FILE...
 *
 * A file holds one input a line: a byte that is not visible ASCII, or is a backslash, stands there
 * as \xHH. A target ends the process where it finds something. */
#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "test/fuzz/fuzz.h"

static unsigned digit(char c)
{
    const char *digits = "0123456789abcdef", *at = strchr(digits, c);
    assert(c != '\0' && at);
    return (unsigned)(at - digits);
}

/* In memory of exactly its size. */
static void run_line(const char *line, size_t length)
{
    uint8_t *bytes = malloc(length + 1);
    size_t size = 0;
    assert(bytes);
    for (size_t i = 0; i < length; size++) {
        bool escaped = line[i] == '\\' && i + 3 < length;
        bytes[size] =
            escaped ? (uint8_t)(digit(line[i + 2]) * 16 + digit(line[i + 3])) : (uint8_t)line[i];
        i += escaped ? 4 : 1;
    }
    bytes = realloc(bytes, size > 0 ? size : 1);
    assert(bytes);
    LLVMFuzzerTestOneInput(bytes, size);
    free(bytes);
}

static size_t run_file(const char *path)
{
    char *line = NULL;
    size_t room = 0, count = 0;
    FILE *file = fopen(path, "re");
    if (!file) {
        perror(path);
        exit(1);
    }
    for (ssize_t length; (length = getline(&line, &room, file)) > 0; count++)
        run_line(line, (size_t)length - (line[length - 1] == '\n'));
    free(line);
    fclose(file);
    return count;
}

int main(int argc, char **argv)
{
    size_t count = 0;
    for (int i = 1; i < argc; i++)
        count += run_file(argv[i]);
    printf("%s: %zu inputs\n", argv[0], count);
    return 0;
}

/* Fuzzes the configuration: lines that begin with -- are flags, lines that begin with SECKILL_ are
 * variables, all others are the file.
 *
 * What is refused leaves nothing and is said in one line. What is taken can be written to a file
 * and read again, and is the same. */
#define _GNU_SOURCE /* memfd_create */
#include <assert.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "service/config/config.h"
#include "base/config_file.h"
#include "service/config/value.h"
#include "test/fuzz/fuzz.h"

enum { WORDS_MAX = 32, PRINTED_MAX = 4096 };

struct words {
    char *list[WORDS_MAX + 2];
    size_t count;
};

static void words_add(struct words *words, char *word)
{
    if (words->count < WORDS_MAX)
        words->list[words->count++] = word;
    else
        free(word);
}

static void words_free(struct words *words, size_t from)
{
    for (size_t i = from; i < words->count; i++)
        free(words->list[i]);
}

/* A file without a name; its path goes to `path_out`. */
static int open_file(char path_out[64])
{
    int fd = memfd_create("config", MFD_CLOEXEC);
    if (fd < 0)
        abort();
    snprintf(path_out, 64, "/proc/self/fd/%d", fd);
    return fd;
}

static void write_all(int fd, const char *text, size_t length)
{
    ssize_t written = length > 0 ? write(fd, text, length) : 0;
    if (written != (ssize_t)length)
        abort();
}

/* No path but that of the file: another one could be a terminal, which would be waited for. */
static bool has_path(const char *text)
{
    return strstr(text, "token_file") || strstr(text, "token-file") || strstr(text, "TOKEN_FILE") ||
           strstr(text, "config") || strstr(text, "CONFIG");
}

static bool is_zero(const struct config *config)
{
    static const struct config zero;
    return memcmp(config, &zero, sizeof zero) == 0;
}

/* One line for each mistake. */
static void check_mistakes(const char *text, size_t size)
{
    assert(size > 0 && strlen(text) == size && text[0] != '\n' && text[size - 1] == '\n');
    assert(!strstr(text, "\n\n"));
}

static enum config_result load(struct config *config, char **argv, char **envp)
{
    char *out_text, *err_text;
    size_t out_size, err_size;
    FILE *out = open_memstream(&out_text, &out_size);
    FILE *err = open_memstream(&err_text, &err_size);
    if (!out || !err)
        abort();
    memset(config, 0xee, sizeof *config);
    enum config_result result = config_load(config, argv, envp, out, err);
    fclose(out);
    fclose(err);
    assert(result == CONFIG_EXIT || out_size == 0);
    assert(result == CONFIG_OK || is_zero(config));
    if (result == CONFIG_BAD)
        check_mistakes(err_text, err_size);
    free(out_text);
    free(err_text);
    return result;
}

/* The field as a file would say it. */
static void write_option(int fd, const struct config *config, const struct option *option)
{
    char number[CONFIG_VALUE_MAX];
    const char *text = number;
    if (option->type == UNSIGNED || option->type == INTEGER)
        value_show(config, option, number);
    else
        memcpy(&text, (const char *)config + option->offset, sizeof text);
    dprintf(fd, "%s = %s\n", option->name, text);
}

/* Compares values without the white space around them, which a file cannot hold. */
static bool is_same(const struct config *a, const struct config *b, const struct option *option)
{
    char one[CONFIG_VALUE_MAX], other[CONFIG_VALUE_MAX];
    if (value_equal(a, b, option))
        return true;
    value_show(a, option, one);
    value_show(b, option, other);
    return strcmp(text_trim(one), other) == 0;
}

static void check_again(const struct config *config)
{
    char path[64], printed[PRINTED_MAX];
    struct config again;
    char *none[] = {NULL}, *argv[] = {(char[]){"seckilld"}, (char[]){"--config"}, path, NULL};
    size_t length = config_print(config, printed, sizeof printed);
    assert(strlen(printed) == (length < sizeof printed ? length : sizeof printed - 1));
    int fd = open_file(path);
    for (size_t i = 0; i < OPTION_COUNT; i++)
        write_option(fd, config, &config_options[i]);
    enum config_result result = load(&again, argv, none);
    close(fd);
    assert(result == CONFIG_OK);
    for (size_t i = 0; i < OPTION_COUNT; i++)
        assert(is_same(config, &again, &config_options[i]));
    config_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char path[64];
    struct config config;
    struct fuzz_input input = {data, size};
    struct words argv = {.list = {(char[]){"seckilld"}, (char[]){"--config"}, path}, .count = 3};
    struct words envp = {.count = 0};
    int fd = open_file(path);
    while (input.left > 0) {
        size_t length;
        char *line = fuzz_text(&input, '\n', &length);
        if (strncmp(line, "--", 2) == 0 && !has_path(line)) {
            words_add(&argv, line);
        } else if (strncmp(line, "SECKILL_", 8) == 0 && !has_path(line)) {
            words_add(&envp, line);
        } else {
            if (!has_path(line)) {
                write_all(fd, line, length);
                write_all(fd, "\n", 1);
            }
            free(line);
        }
    }
    if (load(&config, argv.list, envp.list) == CONFIG_OK)
        check_again(&config);
    config_free(&config);
    close(fd);
    words_free(&argv, 3);
    words_free(&envp, 0);
    return 0;
}

/* Changes the tokens in a file, so that a daemon changes over without a gap: seckillctl token.
 *
 *   rotate: the new token becomes the file's last line ─► SIGHUP ─► clients change over
 *     ─► prune: all lines but the last go ─► SIGHUP
 *
 * why_locked: of two commands at once, the second would write the file without the first's token.
 * The folder is locked, because the file itself is replaced.
 *
 * why_last: clients, this program among them, use the first line. A token that the daemon has not
 * read yet would lock them out. */
#define _GNU_SOURCE /* asprintf */
#include "ctl/commands/commands.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/memory.h"
#include "ctl/output/say.h"

enum {
    TOKENS_MAX = 8, /* tokens that a daemon takes */
    FILE_MODE = S_IRUSR | S_IWUSR,
};

struct tokens {
    char list[TOKENS_MAX][TOKEN_SIZE];
    size_t count;
    mode_t mode;
    uid_t owner;
    gid_t group;
};

/* ---- the file ---- */

static bool add_line(struct tokens *tokens, char *line, const char *path)
{
    line += strspn(line, " \t\r\n");
    line[strcspn(line, " \t\r\n")] = '\0';
    if (*line == '\0')
        return true;
    if (tokens->count == TOKENS_MAX || strlen(line) >= TOKEN_SIZE)
        return REFUSE(false, "%s: not a file of at most %d tokens, one a line", path, TOKENS_MAX);
    strcpy(tokens->list[tokens->count++], line);
    return true;
}

/* A missing file has no tokens yet. */
static int read_file(struct tokens *tokens, const char *path)
{
    char line[TOKEN_SIZE + 16];
    struct stat status;
    *tokens = (struct tokens){.mode = FILE_MODE, .owner = geteuid(), .group = getegid()};
    FILE *file = fopen(path, "re");
    if (!file && errno == ENOENT)
        return EX_OK;
    if (!file || fstat(fileno(file), &status) != 0 || !S_ISREG(status.st_mode)) {
        say("%s: %s", path, file ? "not a file" : strerror(errno));
        if (file)
            fclose(file);
        return EX_NOINPUT;
    }
    tokens->mode = status.st_mode & 07777;
    tokens->owner = status.st_uid;
    tokens->group = status.st_gid;
    bool good = true;
    while (good && fgets(line, sizeof line, file))
        good = add_line(tokens, line, path);
    explicit_bzero(line, sizeof line);
    fclose(file);
    return good ? EX_OK : EX_DATAERR;
}

static bool write_lines(int fd, const struct tokens *tokens, size_t first)
{
    bool good = true;
    for (size_t i = first; i < tokens->count && good; i++)
        good = dprintf(fd, "%s\n", tokens->list[i]) > 0;
    return good && fsync(fd) == 0;
}

/* The daemon's file may belong to another user, who must still be able to read it. */
static bool keep_access(int fd, const struct tokens *tokens)
{
    bool same = tokens->owner == geteuid() && tokens->group == getegid();
    return (same || fchown(fd, tokens->owner, tokens->group) == 0) && fchmod(fd, tokens->mode) == 0;
}

/* Replaces the file at once: a reader of the path sees the whole old file or the whole new one. */
static int write_file(const struct tokens *tokens, size_t first, const char *path)
{
    char *part = NULL;
    if (asprintf(&part, "%s.new", path) < 0)
        abort();
    unlink(part); /* left behind by a killed run */
    int fd = open(part, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, FILE_MODE);
    int status = fd >= 0 ? EX_OK : EX_CANTCREAT;
    if (fd >= 0 &&
        (!write_lines(fd, tokens, first) || !keep_access(fd, tokens) || rename(part, path) != 0))
        status = EX_IOERR;
    if (status != EX_OK)
        say("%s: %s", part, strerror(errno));
    if (fd >= 0)
        close(fd);
    if (status == EX_IOERR)
        unlink(part);
    free(part);
    return status;
}

/* ---- the commands ---- */

bool token_make(char out[2 * TOKEN_BYTES + 1])
{
    unsigned char bytes[TOKEN_BYTES];
    if (getrandom(bytes, sizeof bytes, 0) != (ssize_t)sizeof bytes)
        return REFUSE(false, "there are no random bytes for a token or a key");
    for (size_t i = 0; i < sizeof bytes; i++)
        sprintf(out + 2 * i, "%02x", bytes[i]);
    return true;
}

static int rotate(struct tokens *tokens, const char *path)
{
    if (tokens->count == TOKENS_MAX)
        return REFUSE(EX_REFUSED, "%s has %d tokens already: seckillctl token prune %s", path,
                      TOKENS_MAX, path);
    if (!token_make(tokens->list[tokens->count++]))
        return EX_OSERR;
    int status = write_file(tokens, 0, path);
    if (status == EX_OK)
        printf("%s has %zu tokens, the new one last.\n"
               "Send SIGHUP to every daemon that reads it, and give clients the new token.\n"
               "Then end the old ones: seckillctl token prune %s\n",
               path, tokens->count, path);
    return status;
}

static int prune(const struct context *context, struct tokens *tokens, const char *path)
{
    if (tokens->count < 2)
        return REFUSE(EX_REFUSED, "%s has no older token than its last one", path);
    int status = CONFIRM(context,
                         "takes %zu older tokens out of %s: their clients are refused from "
                         "the next SIGHUP on",
                         tokens->count - 1, path);
    if (status == EX_OK)
        status = write_file(tokens, tokens->count - 1, path);
    if (status == EX_OK)
        printf("%s has one token.\nSend SIGHUP to every daemon that reads it.\n", path);
    return status;
}

/* Locks the file's folder until the program ends. */
static int lock_folder(const char *path)
{
    char *copy = memory_must(strdup(path));
    const char *folder = dirname(copy);
    int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int status = fd < 0 ? EX_NOINPUT : EX_OK;
    if (status != EX_OK)
        say("%s: %s", folder, strerror(errno));
    else if (flock(fd, LOCK_EX | LOCK_NB) != 0)
        status = REFUSE(EX_UNAVAILABLE, "%s: another command changes tokens here: nothing was done",
                        folder);
    free(copy);
    return status;
}

int token_run(struct context *context)
{
    struct tokens tokens = {.count = 0};
    const char *what = argument(context, 1), *path = argument(context, 2);
    bool rotates = strcmp(what, "rotate") == 0;
    if (!rotates && strcmp(what, "prune") != 0)
        return REFUSE(EX_USAGE, "token takes rotate or prune, and not %s", what);
    int status = lock_folder(path);
    status = status == EX_OK ? read_file(&tokens, path) : status;
    if (status == EX_OK)
        status = rotates ? rotate(&tokens, path) : prune(context, &tokens, path);
    explicit_bzero(&tokens, sizeof tokens);
    return status;
}

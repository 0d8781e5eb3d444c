/* Holds locks on command: reads one command per line from standard input, answers with one JSON
 * object per line. For tests that stop, kill and cut off whole processes.
 *
 * usage: lock_driver [prefix=P] [lease=MS] [timeout=MS] [poll=MS] [outage=MS] [memory=own]
 *                    SERVER...
 *
 *   acquire ID KIND NAME [wait=MS] [lease=MS] [permits=N] [limit=N] [mode=read] [fixed=1] [keep=MS]
 *   campaign ID KIND NAME VALUE [wait=MS] [lease=MS]
 *   renew ID · release ID · state ID · free ID       of the hold called ID, a small number
 *   proclaim ID VALUE · leader KIND NAME · observe KIND NAME MS   since the last news of `observe`
 *   status KIND NAME · break KIND NAME · set KIND NAME LIMIT
 *   permit-release NAME TOKEN · permit-extend NAME TOKEN MS
 *   latch-set NAME COUNT · latch-down NAME REQUEST · latch-count NAME · latch-await NAME MS
 *   read STORE NAME · swap STORE NAME VERSION TEXT   STORE: 0 Redis, 1 MySQL
 *   add STORE NAME                                   seclock_value_update: a number one greater
 *   stats */
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>

#include "lock/seclock_value.h"

enum { HOLDS_MAX = 256, WORDS_MAX = 12, LINE_MAX_BYTES = 4096 };

struct hold {
    struct seclock_handle *handle;
    _Atomic int lost; /* calls of on_lost */
};

static struct seclock_client *client;
static struct hold holds[HOLDS_MAX];
static char *words[WORDS_MAX];
static int word_count;

static int64_t now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static const char *word(int i)
{
    return i < word_count ? words[i] : "";
}

/* The value of KEY=VALUE among the words; `fallback` when it is not there. */
static const char *option(const char *key, const char *fallback)
{
    size_t length = strlen(key);
    for (int i = 0; i < word_count; i++)
        if (strncmp(words[i], key, length) == 0 && words[i][length] == '=')
            return words[i] + length + 1;
    return fallback;
}

static int number(const char *key)
{
    return atoi(option(key, "0"));
}

static enum seclock_kind kind_of(const char *text)
{
    enum seclock_kind kind;
    if (!seclock_kind_find(text, &kind)) {
        fprintf(stderr, "lock_driver: no kind of lock: %s\n", text);
        exit(2);
    }
    return kind;
}

static struct hold *hold_of(const char *text)
{
    int id = atoi(text);
    if (id < 0 || id >= HOLDS_MAX) {
        fprintf(stderr, "lock_driver: holds are numbered from 0 to %d\n", HOLDS_MAX - 1);
        exit(2);
    }
    return &holds[id];
}

static void print_text(const char *key, const char *text)
{
    printf(",\"%s\":\"", key);
    for (; *text; text++)
        if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else if ((unsigned char)*text >= ' ')
            putchar(*text);
        else
            printf("\\u%04x", (unsigned)(unsigned char)*text);
    putchar('"');
}

static void print_number(const char *key, long long value)
{
    printf(",\"%s\":%lld", key, value);
}

static void answer(enum seclock_result result)
{
    printf("{\"result\":\"%s\"", seclock_result_name(result));
    if (result != SECLOCK_OK)
        print_text("error", seclock_error());
}

static void print_hold(const struct hold *hold)
{
    print_number("lost", hold->lost);
    if (!hold->handle)
        return;
    print_text("state", seclock_state_name(seclock_state(hold->handle)));
    print_number("remaining_ms", seclock_remaining_ms(hold->handle));
    print_number("fence", (long long)seclock_fence(hold->handle));
    print_number("count", seclock_hold_count(hold->handle));
    print_text("token", seclock_token(hold->handle));
}

/* ---- memory of our own, with a head that malloc's blocks lack ---- */

enum { OWN_MAGIC = 0x5ec10c4 };

union head {
    struct {
        size_t size;
        int magic;
    };
    max_align_t align;
};

static _Atomic long blocks, allocations;

static void *own_malloc(size_t size)
{
    union head *head = malloc(sizeof *head + size);
    if (!head)
        return NULL;
    head->size = size;
    head->magic = OWN_MAGIC;
    blocks++;
    allocations++;
    return head + 1;
}

static void own_free(void *block)
{
    union head *head = (union head *)block - 1;
    if (head->magic != OWN_MAGIC)
        abort(); /* it came from another malloc */
    head->magic = 0;
    blocks--;
    free(head);
}

static void *own_realloc(void *block, size_t size)
{
    void *moved = own_malloc(size);
    if (moved && block) {
        size_t before = ((union head *)block - 1)->size;
        memcpy(moved, block, before < size ? before : size);
        own_free(block);
    }
    return moved;
}

/* ---- commands ---- */

static void on_lost(struct seclock_handle *handle, void *context)
{
    struct hold *hold = context;
    (void)handle;
    hold->lost++;
}

static void command_acquire(void)
{
    struct hold *hold = hold_of(word(1));
    struct seclock_request request =
        SECLOCK_REQUEST(.name = word(3), .kind = kind_of(word(2)),
                        .mode = strcmp(option("mode", "write"), "read") == 0 ? SECLOCK_MODE_READ
                                                                             : SECLOCK_MODE_WRITE,
                        .permits = number("permits"), .limit = number("limit"),
                        .wait_ms = number("wait"), .lease_ms = number("lease"),
                        .fixed_lease = number("fixed") != 0, .hold_ms_max = number("keep"),
                        .on_lost = on_lost, .context = hold);
    seclock_free(&hold->handle);
    hold->lost = 0;
    answer(seclock_acquire(client, &request, &hold->handle));
    print_hold(hold);
}

static void command_campaign(void)
{
    struct hold *hold = hold_of(word(1));
    struct seclock_request request =
        SECLOCK_REQUEST(.name = word(3), .kind = kind_of(word(2)), .wait_ms = number("wait"),
                        .lease_ms = number("lease"), .on_lost = on_lost, .context = hold);
    seclock_free(&hold->handle);
    hold->lost = 0;
    answer(seclock_campaign(client, &request, word(4), &hold->handle));
    print_hold(hold);
}

static void command_proclaim(void)
{
    struct hold *hold = hold_of(word(1));
    answer(hold->handle ? seclock_proclaim(hold->handle, word(2)) : SECLOCK_NOT_OWNER);
    print_hold(hold);
}

static void print_leader(const struct seclock_leader *leader)
{
    print_number("led", leader->led);
    print_number("term", (long long)leader->term);
    print_text("holder", leader->holder);
    print_text("value", leader->value);
}

static void command_leader(void)
{
    struct seclock_leader leader = SECLOCK_LEADER();
    answer(seclock_leader(client, kind_of(word(1)), word(2), &leader));
    print_leader(&leader);
}

static void command_observe(void)
{
    static struct seclock_leader leader = SECLOCK_SIZED(seclock_leader, );
    struct seclock_request request =
        SECLOCK_REQUEST(.name = word(2), .kind = kind_of(word(1)), .wait_ms = atoi(word(3)));
    answer(seclock_observe(client, &request, &leader));
    print_leader(&leader);
}

static void command_renew(void)
{
    struct hold *hold = hold_of(word(1));
    answer(hold->handle ? seclock_renew(hold->handle) : SECLOCK_NOT_OWNER);
    print_hold(hold);
}

static void command_release(void)
{
    struct hold *hold = hold_of(word(1));
    answer(hold->handle ? seclock_release(hold->handle) : SECLOCK_NOT_OWNER);
    print_hold(hold);
}

static void command_state(void)
{
    answer(SECLOCK_OK);
    print_hold(hold_of(word(1)));
}

static void command_free(void)
{
    struct hold *hold = hold_of(word(1));
    seclock_free(&hold->handle);
    answer(SECLOCK_OK);
}

static void command_status(void)
{
    struct seclock_status status = SECLOCK_STATUS();
    answer(seclock_status(client, kind_of(word(1)), word(2), &status));
    print_number("held", status.held);
    print_text("holder", status.holder);
    print_number("count", status.count);
    print_number("limit", status.limit);
    print_number("waiting", status.waiting);
    print_number("remaining_ms", status.remaining_ms);
    print_number("fence", (long long)status.fence);
}

static void command_break(void)
{
    answer(seclock_break(client, kind_of(word(1)), word(2)));
}

static void command_set(void)
{
    answer(seclock_semaphore_set(client, kind_of(word(1)), word(2), atoi(word(3))));
}

static void command_permit_release(void)
{
    answer(seclock_permit_release(client, word(1), word(2)));
}

static void command_permit_extend(void)
{
    answer(seclock_permit_extend(client, word(1), word(2), atoi(word(3))));
}

static void command_latch_set(void)
{
    answer(seclock_latch_set(client, word(1), atoll(word(2)), 0, NULL));
}

static void command_latch_down(void)
{
    int64_t left = -1;
    answer(seclock_latch_count_down(client, word(1), 0, word_count > 2 ? word(2) : NULL, &left));
    print_number("left", left);
}

static void command_latch_count(void)
{
    int64_t left = -1;
    answer(seclock_latch_count(client, word(1), &left));
    print_number("left", left);
}

static void command_latch_await(void)
{
    answer(
        seclock_latch_await(client, &SECLOCK_REQUEST(.name = word(1), .wait_ms = atoi(word(2)))));
}

static enum seclock_store store_of(const char *text)
{
    return atoi(text) == 0 ? SECLOCK_STORE_REDIS : SECLOCK_STORE_MYSQL;
}

static void command_read(void)
{
    static char data[SECLOCK_VALUE_MAX + 1];
    struct seclock_value value = SECLOCK_VALUE(.data = data, .capacity = SECLOCK_VALUE_MAX);
    answer(seclock_value_read(client, store_of(word(1)), word(2), &value));
    data[value.length] = '\0';
    print_number("version", (long long)value.version);
    print_text("value", data);
}

static void command_swap(void)
{
    static char data[SECLOCK_VALUE_MAX];
    struct seclock_value value =
        SECLOCK_VALUE(.version = strtoull(word(3), NULL, 10), .data = data);
    value.length = strlen(word(4));
    memcpy(data, word(4), value.length);
    answer(seclock_value_swap(client, store_of(word(1)), word(2), &value, 0));
    print_number("version", (long long)value.version);
}

static bool add_one(struct seclock_value *value, void *context)
{
    (void)context;
    value->data[value->length] = '\0';
    value->length = (size_t)snprintf(value->data, 32, "%d", atoi(value->data) + 1);
    return true;
}

static void command_add(void)
{
    char data[64];
    struct seclock_value value = SECLOCK_VALUE(.data = data, .capacity = sizeof data - 1);
    answer(seclock_value_update(client, store_of(word(1)), word(2), &value, add_one, NULL, 100));
}

static void command_stats(void)
{
    struct seclock_stats stats = SECLOCK_STATS();
    answer(seclock_client_stats(client, &stats));
    print_number("acquired", (long long)stats.acquired);
    print_number("waits", (long long)stats.waits);
    print_number("renewals", (long long)stats.renewals);
    print_number("renew_errors", (long long)stats.renew_errors);
    print_number("lost", (long long)stats.lost);
    print_number("watched", (long long)stats.watched);
}

static const struct {
    const char *name;
    void (*run)(void);
} commands[] = {
    {"acquire", command_acquire},
    {"campaign", command_campaign},
    {"proclaim", command_proclaim},
    {"leader", command_leader},
    {"observe", command_observe},
    {"renew", command_renew},
    {"release", command_release},
    {"state", command_state},
    {"free", command_free},
    {"status", command_status},
    {"break", command_break},
    {"set", command_set},
    {"permit-release", command_permit_release},
    {"permit-extend", command_permit_extend},
    {"latch-set", command_latch_set},
    {"latch-down", command_latch_down},
    {"latch-count", command_latch_count},
    {"latch-await", command_latch_await},
    {"read", command_read},
    {"swap", command_swap},
    {"add", command_add},
    {"stats", command_stats},
};

static void run_line(char *line)
{
    word_count = 0;
    for (char *rest = line, *next; word_count < WORDS_MAX && (next = strtok_r(rest, " \n", &rest));)
        words[word_count++] = next;
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; i++)
        if (strcmp(word(0), commands[i].name) == 0) {
            int64_t began_ms = now_ms();
            commands[i].run();
            print_number("took_ms", now_ms() - began_ms);
            printf("}\n");
            return;
        }
    fprintf(stderr, "lock_driver: no command: %s\n", word(0));
    exit(2);
}

int main(int argc, char **argv)
{
    static char line[LINE_MAX_BYTES];
    const char *servers[WORDS_MAX + 1] = {NULL};
    int server_count = 0;
    for (int i = 1; i < argc && word_count < WORDS_MAX; i++) {
        words[word_count++] = argv[i];
        if (strstr(argv[i], "://"))
            servers[server_count++] = argv[i];
    }
    bool own_memory = *option("memory", "") != '\0';
    if (own_memory)
        seclock_use_memory(own_malloc, own_realloc, own_free);
    struct seclock_options options =
        SECLOCK_OPTIONS(.servers = servers, .prefix = option("prefix", NULL),
                        .lease_ms = number("lease"), .timeout_ms = number("timeout"),
                        .poll_ms = number("poll"), .outage_ms = number("outage"));
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* who commands it may be killed */
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (seclock_open(&options, &client) != SECLOCK_OK) {
        fprintf(stderr, "lock_driver: %s\n", seclock_error());
        return 2;
    }
    while (fgets(line, sizeof line, stdin))
        run_line(line);
    for (int i = 0; i < HOLDS_MAX; i++)
        seclock_free(&holds[i].handle);
    seclock_close(&client);
    if (own_memory)
        printf("{\"allocations\":%ld,\"blocks\":%ld}\n", allocations, blocks);
    return 0;
}

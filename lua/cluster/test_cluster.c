/* Pipelines to a cluster of scripted nodes: every refusal, and nodes that are lost. */
#include "lua/cluster/cluster.h"
#include "lua/cluster/map.h"
#include "lua/command.h"
#include "lua/script.h"
#include "lua/test_server.h"

#include <poll.h>
#include <stdatomic.h>

#include "base/clock.h"
#include "base/fault.h"

enum {
    NODES = 3,
    RULES_MAX = 16,
    CLIENTS_MAX = 16,
    LOG_SIZE = 4096,
    TIMEOUT_MS = 400,
    PATIENT_MS = 8000
};

/* ---- scripted nodes ---- */

/* What a node answers to commands whose key, or whose name if they have none, is this. */
struct rule {
    const char *what;
    const char *reply; /* "": silence; "close": it hangs up */
    int times;         /* -1: always */
};

struct node {
    int listener, port, stop[2];
    pthread_t thread;
    pthread_mutex_t mutex; /* guards all below */
    struct rule rules[RULES_MAX];
    int rule_count;
    char slots[512]; /* the reply to CLUSTER SLOTS */
    char log[LOG_SIZE];
    struct node *waits_for; /* answers only after that node has got a command */
};

static struct node nodes[NODES];
static struct redis *redis;
static struct cluster *cluster;

static bool is_script(const redisReply *words)
{
    return strncmp(words->element[0]->str, "EVAL", 4) == 0;
}

/* The key of a command, or its name. */
static const char *subject(const redisReply *words)
{
    size_t at = is_script(words) ? 3 : words->elements > 1 ? 1 : 0;
    static const char *const keyless[] = {"HELLO", "PING", "CLUSTER", "TIME"};
    for (size_t i = 0; i < sizeof keyless / sizeof *keyless; i++)
        if (strcmp(words->element[0]->str, keyless[i]) == 0)
            at = 0;
    return words->element[at]->str;
}

static const char *answer_of(struct node *node, const redisReply *words)
{
    const char *what = subject(words);
    for (int i = 0; i < node->rule_count; i++) {
        struct rule *rule = &node->rules[i];
        if (rule->times == 0 || strcmp(rule->what, what) != 0)
            continue;
        rule->times -= rule->times > 0;
        return rule->reply;
    }
    if (strcmp(what, "CLUSTER") == 0)
        return node->slots;
    return is_script(words) ? ":1\r\n" : "+OK\r\n";
}

static bool has_command(struct node *node)
{
    pthread_mutex_lock(&node->mutex);
    bool has = strchr(node->log, ' ') != NULL;
    pthread_mutex_unlock(&node->mutex);
    return has;
}

/* Answers one command; false when the connection is to end. */
static bool serve(struct node *node, int client, const redisReply *words)
{
    pthread_mutex_lock(&node->mutex);
    const char *answer = answer_of(node, words);
    const char *what = subject(words);
    size_t used = strlen(node->log);
    if (strcmp(what, "HELLO") != 0 && strcmp(what, "CLUSTER") != 0)
        snprintf(node->log + used, LOG_SIZE - used, "%s %s;", words->element[0]->str, what);
    struct node *other = is_script(words) ? node->waits_for : NULL;
    char copy[512];
    snprintf(copy, sizeof copy, "%s", answer);
    pthread_mutex_unlock(&node->mutex);
    for (int ms = 0; other && !has_command(other) && ms < 4 * TIMEOUT_MS; ms++)
        clock_sleep_ns(CLOCK_NS_PER_MS);
    if (strcmp(copy, "close") == 0)
        return false;
    send(client, copy, strlen(copy), MSG_NOSIGNAL);
    return true;
}

/* Reads what one client has sent, and answers each whole command. */
static bool read_client(struct node *node, int client, redisReader *reader)
{
    char bytes[4096];
    void *words = NULL;
    ssize_t count = recv(client, bytes, sizeof bytes, 0);
    bool open = count > 0 && redisReaderFeed(reader, bytes, (size_t)count) == REDIS_OK;
    while (open && redisReaderGetReply(reader, &words) == REDIS_OK && words) {
        open = serve(node, client, words);
        freeReplyObject(words);
    }
    return open;
}

static void *node_thread(void *argument)
{
    struct node *node = argument;
    struct pollfd fds[2 + CLIENTS_MAX] = {{.fd = node->stop[0], .events = POLLIN},
                                          {.fd = node->listener, .events = POLLIN}};
    redisReader *readers[2 + CLIENTS_MAX];
    nfds_t count = 2;
    while (poll(fds, count, -1) > 0 && fds[0].revents == 0) {
        for (nfds_t i = 2; i < count; i++)
            if (fds[i].revents && !read_client(node, fds[i].fd, readers[i])) {
                close(fds[i].fd);
                fds[i].fd = -1;
                redisReaderFree(readers[i]);
            }
        if (fds[1].revents && count < 2 + CLIENTS_MAX) {
            readers[count] = redisReaderCreate();
            fds[count].revents = 0;
            fds[count++] =
                (struct pollfd){.fd = accept(node->listener, NULL, NULL), .events = POLLIN};
        }
    }
    for (nfds_t i = 2; i < count; i++)
        if (fds[i].fd >= 0) {
            close(fds[i].fd);
            redisReaderFree(readers[i]);
        }
    return NULL;
}

/* ---- the cluster ---- */

static void set_rule(int node, const char *what, int times, const char *reply)
{
    pthread_mutex_lock(&nodes[node].mutex);
    assert_true(nodes[node].rule_count < RULES_MAX);
    nodes[node].rules[nodes[node].rule_count++] = (struct rule){what, reply, times};
    pthread_mutex_unlock(&nodes[node].mutex);
}

static void forget_rules(int node)
{
    pthread_mutex_lock(&nodes[node].mutex);
    nodes[node].rule_count = 0;
    pthread_mutex_unlock(&nodes[node].mutex);
}

/* How often the node is still to follow its first rule. */
static int times_left(int node)
{
    pthread_mutex_lock(&nodes[node].mutex);
    int times = nodes[node].rules[0].times;
    pthread_mutex_unlock(&nodes[node].mutex);
    return times;
}

/* What a node has been asked since the last look. */
static void expect_log(int node, const char *log)
{
    pthread_mutex_lock(&nodes[node].mutex);
    char copy[LOG_SIZE];
    memcpy(copy, nodes[node].log, LOG_SIZE);
    nodes[node].log[0] = '\0';
    pthread_mutex_unlock(&nodes[node].mutex);
    assert_string_equal(copy, log);
}

/* All nodes say: slots up to 8191 are at the first node, the others at the second. */
static void set_slots(const char *host, int low, int high)
{
    for (int i = 0; i < NODES; i++) {
        pthread_mutex_lock(&nodes[i].mutex);
        snprintf(nodes[i].slots, sizeof nodes[i].slots,
                 "*2\r\n*3\r\n:0\r\n:8191\r\n*3\r\n$%zu\r\n%s\r\n:%d\r\n$1\r\na\r\n"
                 "*3\r\n:8192\r\n:16383\r\n*3\r\n$%zu\r\n%s\r\n:%d\r\n$1\r\nb\r\n",
                 strlen(host), host, nodes[low].port, strlen(host), host, nodes[high].port);
        pthread_mutex_unlock(&nodes[i].mutex);
    }
}

/* A client whose URL names so many of the nodes, from the first on. */
static void open_client(int servers)
{
    char url[128], error[128];
    int used = snprintf(url, sizeof url, "redis+cluster://127.0.0.1:%d", nodes[0].port);
    for (int i = 1; i < servers; i++)
        used += snprintf(url + used, sizeof url - (size_t)used, ",127.0.0.1:%d", nodes[i].port);
    redis = redis_open(url, PATIENT_MS, error, sizeof error);
    assert_non_null(redis);
    cluster = redis_cluster(redis);
    assert_non_null(cluster);
}

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < NODES; i++) {
        nodes[i] =
            (struct node){.listener = listen_anywhere(&nodes[i].port), .port = nodes[i].port};
        assert_int_equal(pipe(nodes[i].stop), 0);
        pthread_mutex_init(&nodes[i].mutex, NULL);
    }
    set_slots("127.0.0.1", 0, 1);
    for (int i = 0; i < NODES; i++)
        assert_int_equal(pthread_create(&nodes[i].thread, NULL, node_thread, &nodes[i]), 0);
    open_client(1);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    redis_close(&redis);
    for (int i = 0; i < NODES; i++) {
        assert_int_equal(write(nodes[i].stop[1], "x", 1), 1);
        pthread_join(nodes[i].thread, NULL);
        close(nodes[i].listener);
        close(nodes[i].stop[0]);
        close(nodes[i].stop[1]);
        pthread_mutex_destroy(&nodes[i].mutex);
    }
    return 0;
}

/* The keys of the tests: "l" and "low" are at the first node, "h" and "high" at the second. */
#define L "{3}l" /* slot 1584 */
#define L2 "{3}l2"
#define H "{1}h" /* slot 9842 */
#define H2 "{1}h2"

static struct script_call call_of(const char *key)
{
    struct script_call call;
    script_begin(&call, SCRIPT_stock_read);
    script_key(&call, key);
    return call;
}

static void expect_result(const struct script_call *call, enum redis_result result)
{
    assert_int_equal(call->result, result);
    assert_int_equal(call->value_count, result == REDIS_ANSWERED ? 1 : 0);
}

/* A refusal of one slot that leads to a node. */
static const char *lead(char text_out[64], const char *word, const char *key, int node)
{
    snprintf(text_out, 64, "-%s %u 127.0.0.1:%d\r\n", word, cluster_slot(key, strlen(key)),
             nodes[node].port);
    return text_out;
}

/* ---- the protocol ---- */

static unsigned slot_of(const char *key)
{
    return cluster_slot(key, strlen(key));
}

/* The examples of Redis' own description. */
static void test_slots(void **state)
{
    (void)state;
    assert_int_equal(slot_of("123456789"), 0x31c3);
    assert_int_equal(slot_of("{user1000}.following"), slot_of("user1000"));
    assert_int_equal(slot_of("foo{{bar}}zap"), slot_of("{bar"));
    assert_int_equal(slot_of("foo{bar}{zap}"), slot_of("bar"));
    assert_int_not_equal(slot_of("foo{}{bar}"), slot_of("bar"));
    assert_int_equal(slot_of(""), 0);
    assert_int_equal(slot_of("foo"), 12182);
    assert_true(slot_of(L) < 8192 && slot_of(H) >= 8192);
}

static void test_refusals(void **state)
{
    static const char *const odd[] = {"MOVED",           "MOVED ",    "MOVED x 1:1",
                                      "MOVED 16384 h:1", "MOVED 1 h", "MOVED 1 h:0",
                                      "MOVED 1 h:65536", "ASK 1 h:1x"};
    struct cluster_redirect to;
    (void)state;
    assert_int_equal(cluster_refusal("MOVED 3999 127.0.0.1:6381", &to), CLUSTER_MOVED);
    assert_int_equal(to.slot, 3999);
    assert_string_equal(to.host, "127.0.0.1");
    assert_int_equal(to.port, 6381);
    assert_int_equal(cluster_refusal("ASK 1 ::1:7000", &to), CLUSTER_ASK);
    assert_string_equal(to.host, "::1");
    assert_int_equal(cluster_refusal("MOVED 1 :7000", &to), CLUSTER_MOVED);
    assert_string_equal(to.host, "");
    assert_int_equal(cluster_refusal("TRYAGAIN Multiple keys", &to), CLUSTER_TRY_AGAIN);
    assert_int_equal(cluster_refusal("CLUSTERDOWN Hash slot not served", &to), CLUSTER_DOWN);
    assert_int_equal(cluster_refusal("ERR MOVED", &to), CLUSTER_NO_REFUSAL);
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++)
        if (strncmp(odd[i], "MOVED ", 6) == 0 || strncmp(odd[i], "ASK ", 4) == 0)
            assert_int_equal(cluster_refusal(odd[i], &to), CLUSTER_DOWN);
}

/* ---- pipelines ---- */

/* With a call to the second node. */
static void learn_slots(void)
{
    struct script_call call = call_of(H);
    script_run(redis, &call, 1);
    expect_result(&call, REDIS_ANSWERED);
    expect_log(1, "EVAL " H ";");
}

static void test_split_by_node(void **state)
{
    struct script_call calls[] = {call_of(L), call_of(H), call_of(L2), call_of(H2)};
    (void)state;
    set_rule(1, H, -1, ":7\r\n");
    script_run(redis, calls, 4);
    for (int i = 0; i < 4; i++)
        expect_result(&calls[i], REDIS_ANSWERED);
    assert_int_equal(calls[1].values[0], 7);
    expect_log(0, "EVAL " L ";EVALSHA " L2 ";");
    expect_log(1, "EVAL " H ";EVALSHA " H2 ";");
    assert_true(script_alive(redis));
}

/* The first node answers only after the second one has been asked. */
static void test_side_by_side(void **state)
{
    struct script_call calls[] = {call_of(L), call_of(H)};
    (void)state;
    nodes[0].waits_for = &nodes[1];
    script_run(redis, calls, 2);
    expect_result(&calls[0], REDIS_ANSWERED);
    expect_result(&calls[1], REDIS_ANSWERED);
}

static void test_moved(void **state)
{
    struct script_call calls[] = {call_of(L), call_of(H), call_of(L2), call_of(L)};
    char moved[64];
    (void)state;
    learn_slots();
    lead(moved, "MOVED", L, 2);
    set_rule(0, L, -1, moved);
    set_rule(0, L2, -1, moved);
    set_slots("127.0.0.1", 2, 1); /* known to who asks, and nobody has asked */
    script_run(redis, calls, 4);
    for (int i = 0; i < 4; i++)
        expect_result(&calls[i], REDIS_ANSWERED);
    expect_log(1, "EVALSHA " H ";");
    expect_log(2, "EVAL " L ";EVALSHA " L2 ";EVALSHA " L ";"); /* all of them, in their order */
    expect_log(0, "EVAL " L ";EVALSHA " L2 ";EVALSHA " L ";");
}

/* The slot is known to have moved from then on, unless a node says otherwise. */
static void test_moved_is_learnt(void **state)
{
    struct script_call call = call_of(L);
    char moved[64];
    (void)state;
    learn_slots();
    set_rule(0, L, 1, lead(moved, "MOVED", L, 2));
    set_slots("127.0.0.1", 2, 1); /* for a client that is so slow that it asks again meanwhile */
    script_run(redis, &call, 1);
    expect_log(0, "EVAL " L ";");
    script_run(redis, &call, 1);
    expect_result(&call, REDIS_ANSWERED);
    expect_log(0, "");
    expect_log(2, "EVAL " L ";EVALSHA " L ";");
}

/* A refused text was not loaded, so the next use carries it again. */
static void test_text_after_refusal(void **state)
{
    struct script_call call = call_of(L);
    char moved[64];
    (void)state;
    set_rule(0, L, 1, lead(moved, "MOVED", L, 0));
    script_run(redis, &call, 1);
    expect_result(&call, REDIS_ANSWERED);
    expect_log(0, "EVAL " L ";EVAL " L ";");
}

static void test_ask(void **state)
{
    struct script_call calls[] = {call_of(L), call_of(L2)};
    char ask[64];
    (void)state;
    lead(ask, "ASK", L, 1);
    set_rule(0, L, 2, ask);
    set_rule(0, L2, 1, ask);
    script_run(redis, calls, 2);
    expect_result(&calls[0], REDIS_ANSWERED);
    expect_result(&calls[1], REDIS_ANSWERED);
    expect_log(1, "ASKING ASKING;EVAL " L ";ASKING ASKING;EVALSHA " L2 ";");
    expect_log(0, "EVAL " L ";EVALSHA " L2 ";");
    script_run(redis, calls, 2); /* not learnt: the first node is asked again */
    expect_log(0, "EVAL " L ";EVALSHA " L2 ";");
    expect_log(1, "ASKING ASKING;EVALSHA " L ";");
}

/* The node that ASK leads to has forgotten the script: its text comes with an ASKING of its own. */
static void test_ask_without_script(void **state)
{
    struct script_call call = call_of(L);
    char ask[64];
    (void)state;
    set_rule(0, L, -1, lead(ask, "ASK", L, 1));
    set_rule(1, L, 1, ":1\r\n");
    script_run(redis, &call, 1);
    set_rule(1, L, 1, "-NOSCRIPT No matching script\r\n");
    script_run(redis, &call, 1);
    expect_result(&call, REDIS_ANSWERED);
    expect_log(1, "ASKING ASKING;EVAL " L ";ASKING ASKING;EVALSHA " L ";ASKING ASKING;EVAL " L ";");
}

static void test_try_again(void **state)
{
    struct script_call calls[] = {call_of(L), call_of(H)};
    (void)state;
    set_rule(0, L, 2, "-TRYAGAIN Multiple keys request during rehashing of slot\r\n");
    script_run(redis, calls, 2);
    expect_result(&calls[0], REDIS_ANSWERED);
    expect_result(&calls[1], REDIS_ANSWERED);
    expect_log(1, "EVAL " H ";"); /* once */
}

static void test_patience_ends(void **state)
{
    struct script_call calls[] = {call_of(L), call_of(H)};
    (void)state;
    cluster_set_patience(cluster, 30);
    set_rule(0, L, -1, "-TRYAGAIN Multiple keys request during rehashing of slot\r\n");
    script_run(redis, calls, 2);
    expect_result(&calls[0], REDIS_FAILED);
    expect_result(&calls[1], REDIS_ANSWERED);
    assert_non_null(strstr(redis_error(redis), "the slot is being moved"));
    assert_true(redis_fault(redis)->count > 0);
    assert_true(command_moving(redis));
}

/* Two nodes that lead to each other do not keep a pipeline for ever. */
static void test_circle(void **state)
{
    struct script_call call = call_of(L);
    char there[64], back[64];
    (void)state;
    cluster_set_patience(cluster, 30);
    set_rule(0, L, -1, lead(there, "MOVED", L, 1));
    set_rule(1, L, -1, lead(back, "MOVED", L, 0));
    script_run(redis, &call, 1);
    expect_result(&call, REDIS_FAILED);
}

/* Not sent again; the slots are asked for anew, and the next call finds the new owner. */
static void refuse_and_find(const char *refusal)
{
    struct script_call calls[] = {call_of(L), call_of(H)};
    set_rule(0, L, -1, refusal);
    script_run(redis, calls, 2);
    expect_result(&calls[0], REDIS_FAILED);
    expect_result(&calls[1], REDIS_ANSWERED);
    set_slots("127.0.0.1", 2, 1);
    for (int i = 0; i < 100 && calls[0].result != REDIS_ANSWERED; i++) {
        clock_sleep_ns(10 * CLOCK_NS_PER_MS);
        script_run(redis, calls, 1);
    }
    expect_result(&calls[0], REDIS_ANSWERED);
    expect_log(2, "EVAL " L ";");
}

static void test_cluster_down(void **state)
{
    (void)state;
    refuse_and_find("-CLUSTERDOWN Hash slot not served\r\n");
}

static void test_read_only(void **state)
{
    (void)state;
    refuse_and_find("-READONLY You can't write against a read only replica.\r\n");
}

static void test_lost_node(void **state)
{
    struct script_call calls[] = {call_of(L), call_of(H), call_of(L2), call_of(H2)};
    (void)state;
    set_rule(0, L2, 1, "close");
    script_run(redis, calls, 4);
    expect_result(&calls[0], REDIS_ANSWERED);
    expect_result(&calls[1], REDIS_ANSWERED);
    expect_result(&calls[2], REDIS_UNKNOWN);
    expect_result(&calls[3], REDIS_ANSWERED);
    expect_log(0, "EVAL " L ";EVALSHA " L2 ";"); /* not sent again */
    assert_true(script_alive(redis));
    script_run(redis, calls, 4); /* on a new connection */
    for (int i = 0; i < 4; i++)
        expect_result(&calls[i], REDIS_ANSWERED);
}

static void test_silent_node(void **state)
{
    struct script_call calls[] = {call_of(L), call_of(H), call_of(L2)};
    (void)state;
    set_rule(0, L, 1, "");
    script_run(redis, calls, 2);
    expect_result(&calls[0], REDIS_UNKNOWN);
    expect_result(&calls[1], REDIS_ANSWERED);
    assert_true(script_alive(redis));
    script_run(redis, calls + 2, 1);
    expect_result(&calls[2], REDIS_ANSWERED);
}

static void test_silent_nodes_are_unknown(void **state)
{
    struct script_call calls[] = {call_of(L), call_of(H)};
    (void)state;
    script_run(redis, calls, 2);
    set_rule(0, L, 1, "");
    set_rule(1, H, 1, "");
    script_run(redis, calls, 2);
    expect_result(&calls[0], REDIS_UNKNOWN);
    expect_result(&calls[1], REDIS_UNKNOWN);
    assert_false(script_alive(redis));
}

/* A new client that knows the slots and has no connection, and nodes without rules. */
static void begin_anew(void)
{
    struct script_call calls[] = {call_of(L), call_of(H)};
    for (int i = 0; i < NODES; i++)
        forget_rules(i);
    redis_close(&redis);
    open_client(1);
    redis_set_timeout(redis, 20 * TIMEOUT_MS);
    script_run(redis, calls, 2);
    expect_result(&calls[0], REDIS_ANSWERED);
    expect_result(&calls[1], REDIS_ANSWERED);
    redis_set_timeout(redis, TIMEOUT_MS);
}

/* Two nodes that are silent to `what` cost less than two time-outs: in one of several tries, as a
 * busy machine may be late. */
static void expect_one_time_out(const char *what, bool dropped, void (*run)(void))
{
    int64_t took_ms = INT64_MAX;
    for (int i = 0; i < 20 && took_ms >= 2 * TIMEOUT_MS; i++) {
        begin_anew();
        set_rule(0, what, -1, "");
        set_rule(1, what, -1, "");
        if (dropped)
            redis_drop(redis);
        int64_t start_ms = clock_now_ms();
        run();
        took_ms = clock_now_ms() - start_ms;
    }
    assert_true(took_ms < 2 * TIMEOUT_MS);
}

static void run_both(void)
{
    struct script_call calls[] = {call_of(L), call_of(H)};
    script_run(redis, calls, 2);
    assert_int_not_equal(calls[0].result, REDIS_ANSWERED);
    assert_int_not_equal(calls[1].result, REDIS_ANSWERED);
}

static void ping(void)
{
    assert_int_not_equal(redis_ping(redis), REDIS_ANSWERED);
}

/* The first node is silent to this already. */
static void run_silent(void)
{
    set_rule(1, H, -1, "");
    run_both();
    assert_false(script_alive(redis));
}

/* Connects are accepted, and nothing is said on them. */
static void test_nodes_that_hang_share_one_time_out(void **state)
{
    (void)state;
    expect_one_time_out("HELLO", true, run_both);
    expect_one_time_out("HELLO", true, ping);
}

static void test_replies_share_one_time_out(void **state)
{
    (void)state;
    expect_one_time_out(L, false, run_silent);
}

static void test_ping_has_one_time_out(void **state)
{
    (void)state;
    expect_one_time_out("PING", false, ping);
}

/* The call is refused in a way that has the next one ask for the slots. */
static void doubt_and_run(void)
{
    struct script_call call = call_of(L);
    set_rule(0, L, -1, "-CLUSTERDOWN Hash slot not served\r\n");
    script_run(redis, &call, 1);
    clock_sleep_ns(300 * CLOCK_NS_PER_MS); /* the longest delay between two questions */
    script_run(redis, &call, 1);
    expect_result(&call, REDIS_FAILED);
}

static void test_questions_for_the_slots_share_one_time_out(void **state)
{
    (void)state;
    cluster_set_patience(cluster, 1);
    expect_one_time_out("CLUSTER", false, doubt_and_run);
}

static void test_node_behind_one_that_hangs_is_reached(void **state)
{
    struct script_call calls[] = {call_of(L), call_of(H)};
    (void)state;
    begin_anew();
    redis_set_timeout(redis, 10 * TIMEOUT_MS);
    set_rule(0, "HELLO", -1, "");
    redis_drop(redis);
    script_run(redis, calls, 2);
    expect_result(&calls[0], REDIS_FAILED); /* never sent */
    expect_result(&calls[1], REDIS_ANSWERED);
}

/* MOVED names a node that was never asked before, and the patience ends with a node that hangs. */
static void test_patience_ends_before_a_new_node_is_asked(void **state)
{
    struct script_call calls[] = {call_of(L), call_of(H)};
    char moved[64];
    (void)state;
    cluster_set_patience(cluster, 1);
    set_rule(0, L, -1, lead(moved, "MOVED", L, 2));
    set_rule(1, H, -1, "");
    script_run(redis, calls, 2);
    expect_result(&calls[0], REDIS_FAILED);
    expect_result(&calls[1], REDIS_UNKNOWN);
    expect_log(2, "");
}

/* A node without an address is the one that was asked. */
static void test_no_address(void **state)
{
    struct script_call calls[] = {call_of(L), call_of(H)};
    (void)state;
    set_slots("", 0, 1);
    script_run(redis, calls, 2);
    expect_result(&calls[0], REDIS_ANSWERED);
    expect_result(&calls[1], REDIS_ANSWERED);
}

/* "?" stands for a name that a node should have and has not: its address is elsewhere. */
static void test_no_name(void **state)
{
    struct script_call calls[] = {call_of(L), call_of(H)};
    char slots[512], moved[64];
    (void)state;
    snprintf(slots, sizeof slots,
             "*2\r\n*3\r\n:0\r\n:8191\r\n*4\r\n$1\r\n?\r\n:%d\r\n$1\r\na\r\n"
             "*2\r\n$2\r\nip\r\n$9\r\n127.0.0.1\r\n"
             "*3\r\n:8192\r\n:16383\r\n*4\r\n$1\r\n?\r\n:%d\r\n$1\r\nb\r\n*0\r\n",
             nodes[2].port, nodes[1].port);
    begin_anew();
    for (int i = 0; i < NODES; i++)
        set_rule(i, "CLUSTER", -1, slots);
    snprintf(moved, sizeof moved, "-MOVED %u ?:%d\r\n", cluster_slot(L, strlen(L)), nodes[2].port);
    set_rule(0, L, -1, moved);
    redis_set_timeout(redis, 20 * TIMEOUT_MS);
    script_run(redis, calls, 2);
    expect_result(&calls[0], REDIS_ANSWERED);
    expect_result(&calls[1], REDIS_ANSWERED);
    expect_log(2, "EVAL " L ";");
}

static void test_odd_slots(void **state)
{
    static const char *const odd[] = {"*0\r\n",
                                      "+OK\r\n",
                                      "-ERR This instance has cluster support "
                                      "disabled\r\n",
                                      "*1\r\n*2\r\n:0\r\n:1\r\n",
                                      "*1\r\n*3\r\n:5\r\n:1\r\n*2\r\n$1\r\nh\r\n:1\r\n",
                                      "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\nh\r\n:1\r\n"};
    struct script_call call = call_of(L);
    (void)state;
    for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
        set_rule(0, "CLUSTER", 1, odd[i]);
        script_run(redis, &call, 1);
        expect_result(&call, REDIS_FAILED);
        assert_false(script_alive(redis));
        assert_true(redis_error(redis)[0] != '\0');
        clock_sleep_ns(300 * CLOCK_NS_PER_MS); /* the longest delay between two questions */
    }
    script_run(redis, &call, 1);
    expect_result(&call, REDIS_ANSWERED);
}

/* The server that is asked first answers, and is of no use however often it is asked. */
static void test_server_without_slots_is_left_for_the_next(void **state)
{
    enum { OFTEN = 1000 };
    struct script_call call = call_of(L);
    (void)state;
    set_slots("127.0.0.1", 2, 2);
    redis_close(&redis);
    open_client(2);
    for (int i = 0; i < 2; i++)
        set_rule(i, "CLUSTER", OFTEN, "*0\r\n");
    script_run(redis, &call, 1);
    expect_result(&call, REDIS_FAILED);
    int other = times_left(0) < OFTEN ? 1 : 0;
    assert_int_equal(times_left(other), OFTEN); /* only one has been asked */
    forget_rules(other);
    for (int i = 0; i < 100 && call.result != REDIS_ANSWERED; i++) {
        clock_sleep_ns(10 * CLOCK_NS_PER_MS);
        script_run(redis, &call, 1);
    }
    expect_result(&call, REDIS_ANSWERED);
}

/* ---- commands ---- */

static void test_commands(void **state)
{
    struct command commands[] = {
        {.argc = 2, .argv = {"GET", H}},
        {.argc = 1, .argv = {"TIME"}},
        {.argc = 2, .argv = {"GET", L}},
        {.argc = 5, .argv = {"EVAL", "text", "1", L2, "x"}},
    };
    (void)state;
    set_rule(0, L, 1, "$3\r\nlow\r\n");
    command_run(redis, commands, 4);
    for (int i = 0; i < 4; i++)
        assert_int_equal(commands[i].result, REDIS_ANSWERED);
    assert_string_equal(command_text(&commands[2], -1, NULL), "low");
    command_clear(commands, 4);
    expect_log(1, "GET " H ";TIME TIME;");
    expect_log(0, "GET " L ";EVAL " L2 ";");
}

static void test_watch_moves(void **state)
{
    struct command look[] = {
        {.argc = 1, .argv = {"UNWATCH"}},
        {.argc = 2, .argv = {"WATCH", L}},
        {.argc = 2, .argv = {"GET", L2}},
    };
    struct command change[] = {
        {.argc = 1, .argv = {"MULTI"}},
        {.argc = 3, .argv = {"SET", L, "x"}},
        {.argc = 1, .argv = {"EXEC"}},
    };
    char moved[64], ask[64];
    (void)state;
    learn_slots();
    lead(moved, "MOVED", L, 2);
    set_rule(0, L2, -1, moved);
    set_slots("127.0.0.1", 2, 1); /* known to who asks, and nobody has asked */
    command_run(redis, look, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(look[i].result, REDIS_ANSWERED);
    command_clear(look, 3);
    expect_log(0, "UNWATCH UNWATCH;WATCH " L ";GET " L2 ";");
    expect_log(2, "UNWATCH UNWATCH;WATCH " L ";GET " L2 ";"); /* all of it, at the new node */
    set_rule(2, L, 1, lead(ask, "ASK", L, 1));
    set_rule(2, "EXEC", 1, "-EXECABORT Transaction discarded\r\n");
    command_run(redis, change, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(change[i].result, REDIS_FAILED);
    assert_true(command_moving(redis));
    command_clear(change, 3);
    expect_log(2, "MULTI MULTI;SET " L ";EXEC EXEC;");
    expect_log(1, ""); /* never sent again */
}

static void watch_and_read(void)
{
    struct command look[] = {{.argc = 2, .argv = {"WATCH", L}}, {.argc = 2, .argv = {"GET", L}}};
    command_run(redis, look, 2);
    assert_int_equal(look[1].result, REDIS_ANSWERED);
    command_clear(look, 2);
}

static void expect_transaction(enum redis_result result)
{
    struct command change[] = {
        {.argc = 1, .argv = {"MULTI"}},
        {.argc = 3, .argv = {"SET", L, "x"}},
        {.argc = 1, .argv = {"EXEC"}},
    };
    command_run(redis, change, 3);
    for (int i = 0; i < 3; i++)
        assert_int_equal(change[i].result, result);
    assert_int_equal(command_moving(redis), result == REDIS_FAILED);
    command_clear(change, 3);
}

/* An EXEC anywhere else would succeed whoever has changed the key since. */
static void test_transaction_goes_where_its_watch_is(void **state)
{
    struct script_call call = call_of(H);
    char moved[64];
    (void)state;
    learn_slots();
    set_rule(1, H, 1, "-CLUSTERDOWN Hash slot not served\r\n");
    script_run(redis, &call, 1); /* from here on the slots are asked for again */
    watch_and_read();
    set_slots("127.0.0.1", 2, 1);
    clock_sleep_ns(300 * CLOCK_NS_PER_MS); /* the longest delay between two questions */
    set_rule(0, L, 1, lead(moved, "MOVED", L, 2));
    set_rule(0, "EXEC", 1, "-EXECABORT Transaction discarded\r\n");
    expect_transaction(REDIS_FAILED);
    expect_log(2, "");
    expect_log(0, "WATCH " L ";GET " L ";MULTI MULTI;SET " L ";EXEC EXEC;");
    watch_and_read();
    expect_transaction(REDIS_ANSWERED);
    expect_log(2, "WATCH " L ";GET " L ";MULTI MULTI;SET " L ";EXEC EXEC;");
}

static void test_watch_is_lost_with_its_connection(void **state)
{
    (void)state;
    watch_and_read();
    redis_drop(redis);
    expect_transaction(REDIS_FAILED);
    expect_log(0, "WATCH " L ";GET " L ";");
    watch_and_read();
    expect_transaction(REDIS_ANSWERED);
}

static void test_watch_asks(void **state)
{
    struct command look[] = {{.argc = 2, .argv = {"WATCH", L}}, {.argc = 2, .argv = {"GET", L2}}};
    struct command change[] = {
        {.argc = 1, .argv = {"MULTI"}},
        {.argc = 3, .argv = {"SET", L, "x"}},
        {.argc = 1, .argv = {"EXEC"}},
    };
    char ask[64];
    (void)state;
    set_rule(0, L, 1, lead(ask, "ASK", L, 1));
    command_run(redis, look, 2);
    assert_int_equal(look[1].result, REDIS_ANSWERED);
    command_clear(look, 2);
    command_run(redis, change, 3);
    assert_int_equal(change[2].result, REDIS_ANSWERED);
    command_clear(change, 3);
    expect_log(1, "ASKING ASKING;WATCH " L ";ASKING ASKING;GET " L2 ";"
                  "ASKING ASKING;MULTI MULTI;SET " L ";EXEC EXEC;");
}

static void test_masters(void **state)
{
    char key[CLUSTER_KEY_SIZE];
    (void)state;
    assert_int_equal(cluster_masters(cluster), 2);
    for (size_t i = 0; i < 2; i++) {
        struct command ping = {.argc = 1, .argv = {"PING"}};
        assert_string_not_equal(redis_place(cluster_master(cluster, i)),
                                redis_place(cluster_master(cluster, !i)));
        cluster_master_key(cluster, i, "key:", key);
        assert_true((slot_of(key) >= 8192) == (i == 1));
        command_run(cluster_master(cluster, i), &ping, 1);
        assert_int_equal(ping.result, REDIS_ANSWERED);
        command_clear(&ping, 1);
    }
    assert_int_equal(redis_ping(redis), REDIS_ANSWERED);
}

/* For tests of nodes that do not answer. */
static int set_up_hasty(void **state)
{
    int failed = set_up(state);
    redis_set_timeout(redis, TIMEOUT_MS);
    return failed;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)
#define HASTY(name) cmocka_unit_test_setup_teardown(name, set_up_hasty, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(test_slots),
        TEST(test_refusals),
        TEST(test_split_by_node),
        TEST(test_side_by_side),
        TEST(test_moved),
        TEST(test_moved_is_learnt),
        TEST(test_text_after_refusal),
        TEST(test_ask),
        TEST(test_ask_without_script),
        TEST(test_try_again),
        HASTY(test_patience_ends),
        HASTY(test_circle),
        HASTY(test_cluster_down),
        TEST(test_read_only),
        HASTY(test_lost_node),
        HASTY(test_silent_node),
        HASTY(test_silent_nodes_are_unknown),
        HASTY(test_nodes_that_hang_share_one_time_out),
        HASTY(test_node_behind_one_that_hangs_is_reached),
        HASTY(test_replies_share_one_time_out),
        HASTY(test_ping_has_one_time_out),
        HASTY(test_questions_for_the_slots_share_one_time_out),
        HASTY(test_patience_ends_before_a_new_node_is_asked),
        HASTY(test_no_address),
        HASTY(test_no_name),
        HASTY(test_odd_slots),
        HASTY(test_server_without_slots_is_left_for_the_next),
        TEST(test_commands),
        TEST(test_watch_moves),
        TEST(test_transaction_goes_where_its_watch_is),
        HASTY(test_watch_is_lost_with_its_connection),
        TEST(test_watch_asks),
        TEST(test_masters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

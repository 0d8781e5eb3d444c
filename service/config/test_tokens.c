/* The tokens that callers show. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "service/config/config.h"
#include "service/log/log.h"
#include "service/config/tokens.h"

static char file_name[] = "/tmp/seckill-tokens.XXXXXX";
static struct config config;
static struct tokens *tokens;

static void write_tokens(const char *content)
{
    FILE *file = fopen(file_name, "w");
    assert_non_null(file);
    fputs(content, file);
    fclose(file);
}

/* The admin's tokens are an option's, the shop's are the file's. */
static int start(void **state)
{
    (void)state;
    log_setup(LOG_ERROR, STDERR_FILENO);
    strcpy(file_name, "/tmp/seckill-tokens.XXXXXX");
    int fd = mkstemp(file_name);
    if (fd < 0)
        return -1;
    close(fd);
    memset(&config, 0, sizeof config);
    config.admin_token = strdup("root,root2");
    config.admin_token_file = strdup("");
    config.shop_token = strdup("till-1,till-2");
    config.shop_token_file = strdup(file_name);
    tokens = tokens_open(&config);
    return 0;
}

static int end(void **state)
{
    (void)state;
    tokens_close(&tokens);
    config_free(&config);
    unlink(file_name);
    return 0;
}

static void test_each_token_of_its_class_matches(void **state)
{
    (void)state;
    assert_true(tokens_match(tokens, TOKENS_ADMIN, "root"));
    assert_true(tokens_match(tokens, TOKENS_ADMIN, "root2"));
    assert_true(tokens_match(tokens, TOKENS_SHOP, "till-1"));
    assert_true(tokens_match(tokens, TOKENS_SHOP, "till-2"));
}

static void test_nothing_else_matches(void **state)
{
    static const char *const bad[] = {"",        "r",         "roo",    "rooT",
                                      "root3",   "rootroot",  "till-1", "root,root2",
                                      "root2oo", "rootroot2", " root",  "root "};
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        assert_false(tokens_match(tokens, TOKENS_ADMIN, bad[i]));
    assert_false(tokens_match(tokens, TOKENS_SHOP, "root"));
}

static void test_empty_tokens_match_nothing(void **state)
{
    (void)state;
    struct config empty = config;
    empty.admin_token = empty.shop_token = empty.shop_token_file = (char[]){""};
    struct tokens *none = tokens_open(&empty);
    assert_true(tokens_wanted(none, TOKENS_ADMIN));
    assert_false(tokens_wanted(none, TOKENS_SHOP));
    assert_false(tokens_match(none, TOKENS_ADMIN, ""));
    assert_false(tokens_match(none, TOKENS_SHOP, ""));
    assert_true(tokens_reload(none));
    tokens_close(&none);
}

static void test_reload_replaces_the_tokens_of_the_file(void **state)
{
    (void)state;
    write_tokens("till-2\ntill-3\n");
    assert_true(tokens_reload(tokens));
    assert_false(tokens_match(tokens, TOKENS_SHOP, "till-1"));
    assert_true(tokens_match(tokens, TOKENS_SHOP, "till-2"));
    assert_true(tokens_match(tokens, TOKENS_SHOP, "till-3"));
    assert_true(tokens_match(tokens, TOKENS_ADMIN, "root"));
}

static void test_bad_file_keeps_the_tokens(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        write_tokens(i == 0 ? "" : "two words\n");
        if (i == 2)
            unlink(file_name);
        assert_false(tokens_reload(tokens));
        assert_true(tokens_match(tokens, TOKENS_SHOP, "till-1"));
        assert_true(tokens_match(tokens, TOKENS_SHOP, "till-2"));
    }
}

static _Atomic bool done;

static void *match_all_the_time(void *context)
{
    uintptr_t missed = 0;
    (void)context;
    while (!atomic_load(&done))
        missed += !tokens_match(tokens, TOKENS_SHOP, "till-2");
    return (void *)missed;
}

static void test_token_in_both_files_never_fails(void **state)
{
    pthread_t reader;
    void *missed = NULL;
    (void)state;
    atomic_store(&done, false);
    assert_int_equal(pthread_create(&reader, NULL, match_all_the_time, NULL), 0);
    for (int i = 0; i < 200; i++) {
        write_tokens(i % 2 ? "till-1\ntill-2\n" : "till-2\ntill-3\n");
        assert_true(tokens_reload(tokens));
    }
    atomic_store(&done, true);
    pthread_join(reader, &missed);
    assert_null(missed);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_each_token_of_its_class_matches, start, end),
        cmocka_unit_test_setup_teardown(test_nothing_else_matches, start, end),
        cmocka_unit_test_setup_teardown(test_empty_tokens_match_nothing, start, end),
        cmocka_unit_test_setup_teardown(test_reload_replaces_the_tokens_of_the_file, start, end),
        cmocka_unit_test_setup_teardown(test_bad_file_keeps_the_tokens, start, end),
        cmocka_unit_test_setup_teardown(test_token_in_both_files_never_fails, start, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

/* Addresses, tokens, the configuration file and the environment. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "ctl/config.h"

static void test_addresses(void **state)
{
    static const struct {
        const char *text, *base, *socket;
    } good[] = {
        {"127.0.0.1:8080", "http://127.0.0.1:8080", ""},
        {"http://[::1]:80/", "http://[::1]:80", ""},
        {"https://shop.example", "https://shop.example", ""},
        {"unix:/run/seckill.sock", "http://localhost", "/run/seckill.sock"},
        {"/run/seckill.sock", "http://localhost", "/run/seckill.sock"},
    };
    static const char *const bad[] = {
        "",      "ftp://host",    "http://",     "http://user:word@host:1", "http://host/path",
        "ho st", "unix:relative", "http://h?x=1"};
    struct address address;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) {
        assert_true(address_parse(good[i].text, &address));
        assert_string_equal(address.shown, good[i].text);
        assert_string_equal(address.base, good[i].base);
        assert_string_equal(address.socket, good[i].socket);
    }
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(address_parse(bad[i], &address));
}

static void test_address_that_is_too_long(void **state)
{
    char text[2 * ADDRESS_SIZE];
    struct address address;
    (void)state;
    memset(text, 'h', sizeof text);
    text[ADDRESS_SIZE - sizeof "http://"] = '\0';
    assert_true(address_parse(text, &address));
    text[ADDRESS_SIZE - sizeof "http://"] = 'h';
    text[ADDRESS_SIZE] = '\0';
    assert_false(address_parse(text, &address));
}

/* Reads a file with this text and mode. */
static bool load(const char *text, mode_t mode, struct config *config_out)
{
    char path[] = "/tmp/seckillctl-test.XXXXXX";
    int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    fchmod(fd, mode);
    close(fd);
    bool good = config_load(config_out, path);
    unlink(path);
    return good;
}

static void clear_environment(void)
{
    for (int i = 0; i < SETTING_COUNT; i++)
        unsetenv(setting_rows[i].variable);
}

static void test_file(void **state)
{
    struct config config;
    (void)state;
    clear_environment();
    assert_true(load("", 0644, &config));
    assert_int_equal(config.admin_count, 1);
    assert_string_equal(config.admin[0].base, "http://127.0.0.1:8080");
    assert_string_equal(config.shop->base, "http://127.0.0.1:8080");
    assert_string_equal(config.admin_token, "");
    assert_true(
        load(" # ours\n\nadmin = a:1, b:2 c:3\nadmin_token=secret \nshop=s", 0600, &config));
    assert_int_equal(config.admin_count, 3);
    assert_string_equal(config.admin[2].base, "http://c:3");
    assert_string_equal(config.shop->base, "http://s");
    assert_string_equal(config.admin_token, "secret");
}

static void test_pods(void **state)
{
    struct config config;
    (void)state;
    clear_environment();
    assert_true(load("admin = a:1 a:2; b:1 ;c:1,c:2", 0644, &config));
    assert_int_equal(config.pod_count, 3);
    assert_int_equal(config.admin_count, 2);
    assert_string_equal(config.shop->base, "http://a:1");
    config_use_pod(&config, 1);
    assert_int_equal(config.admin_count, 1);
    assert_string_equal(config.admin[0].base, "http://b:1");
    assert_string_equal(config.shop->base, "http://b:1");
    assert_true(load("admin = a:1; b:1\nshop = proxy", 0644, &config));
    config_use_pod(&config, 1);
    assert_string_equal(config.shop->base, "http://proxy");
}

static void test_too_many_pods(void **state)
{
    char text[16 * (PODS_MAX + 2)] = "admin = h:0";
    struct config config;
    (void)state;
    clear_environment();
    for (int i = 1; i < PODS_MAX; i++)
        sprintf(text + strlen(text), "; h:%d", i);
    assert_true(load(text, 0600, &config));
    assert_int_equal(config.pod_count, PODS_MAX);
    strcat(text, "; h:99");
    assert_false(load(text, 0600, &config));
}

static void test_file_that_is_wrong(void **state)
{
    static const char *const bad[] = {"admin",
                                      "fly = 1",
                                      "admin = ,",
                                      "admin = a:1;",
                                      "admin = ;a:1",
                                      "shop = a b",
                                      "admin_token = a b",
                                      "admin_token = a,b",
                                      "shop_token =",
                                      "admin_token = a\nadmin_token_file = /dev/null"};
    struct config config;
    (void)state;
    clear_environment();
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        assert_false(load(bad[i], 0600, &config));
}

static void test_token_that_everybody_can_read(void **state)
{
    static const char *const tokens[] = {"admin_token = secret", "shop_token = secret"};
    struct config config;
    (void)state;
    clear_environment();
    for (size_t i = 0; i < sizeof tokens / sizeof tokens[0]; i++) {
        assert_false(load(tokens[i], 0604, &config));
        assert_true(load(tokens[i], 0640, &config)); /* for a group of operators */
    }
}

static void test_environment_wins(void **state)
{
    struct config config;
    (void)state;
    clear_environment();
    setenv("SECKILLCTL_ADMIN", "unix:/run/admin", 1);
    setenv("SECKILLCTL_ADMIN_TOKEN", "other", 1);
    assert_true(load("admin = a:1\nadmin_token_file = /nowhere\n", 0600, &config));
    assert_string_equal(config.admin[0].socket, "/run/admin");
    assert_string_equal(config.admin_token, "other");
    setenv("SECKILLCTL_ADMIN_TOKEN_FILE", "/nowhere", 1);
    assert_false(load("", 0600, &config)); /* which of the two is meant? */
    clear_environment();
}

static void test_too_many_daemons(void **state)
{
    char text[16 * (DAEMONS_MAX + 2)] = "admin =";
    struct config config;
    (void)state;
    clear_environment();
    for (int i = 0; i < DAEMONS_MAX; i++)
        sprintf(text + strlen(text), " h:%d", i);
    assert_true(load(text, 0600, &config));
    assert_int_equal(config.admin_count, DAEMONS_MAX);
    strcat(text, " h:99");
    assert_false(load(text, 0600, &config));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_addresses),
        cmocka_unit_test(test_address_that_is_too_long),
        cmocka_unit_test(test_file),
        cmocka_unit_test(test_pods),
        cmocka_unit_test(test_too_many_pods),
        cmocka_unit_test(test_file_that_is_wrong),
        cmocka_unit_test(test_token_that_everybody_can_read),
        cmocka_unit_test(test_environment_wins),
        cmocka_unit_test(test_too_many_daemons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}

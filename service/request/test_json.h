/* For unit tests of answers: reads JSON and its members, and fails the test where they are not. */
#ifndef SECKILL_SERVICE_TEST_JSON_H
#define SECKILL_SERVICE_TEST_JSON_H

#include <jansson.h>
#include <stdint.h>

/* The caller includes cmocka.h, with what that needs before it, first. */

static inline json_t *parse(const char *text, size_t length)
{
    json_error_t error;
    json_t *object = json_loadb(text, length, JSON_REJECT_DUPLICATES, &error);
    if (!object)
        fail_msg("%s in %.*s", error.text, (int)length, text);
    assert_true(json_is_object(object));
    return object;
}

static inline const char *member(const json_t *object, const char *name)
{
    const char *text = json_string_value(json_object_get(object, name));
    if (!text)
        fail_msg("no text \"%s\"", name);
    return text;
}

static inline int64_t number(const json_t *object, const char *name)
{
    const json_t *value = json_object_get(object, name);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

#endif

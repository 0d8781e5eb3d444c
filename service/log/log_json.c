/* A line of the log as a JSON object. */
#include "service/log/log_json.h"

#include <assert.h>
#include <string.h>

#define TAIL ",\"truncated\":true}"
#define REPLACEMENT "\xef\xbf\xbd" /* U+FFFD */
enum { DIGITS_MAX = 15, ESCAPE_SIZE = sizeof "\\u0000" };

/* Keys whose values may look like a number in one line and not in another. */
static const char *const text_keys[] = {"sku",   "request_id", "trace_id", "key",     "error",
                                        "doing", "holder",     "address",  "message", "file"};

struct json {
    char *text;
    size_t length, size; /* without the room for TAIL */
    bool full;
};

/* All of it, or nothing and then no more. */
static bool put(struct json *json, const char *bytes, size_t count)
{
    if (json->full || json->size - json->length < count) {
        json->full = true;
        return false;
    }
    memcpy(json->text + json->length, bytes, count);
    json->length += count;
    return true;
}

/* ---- characters ---- */

/* Bytes of the UTF-8 character that `at` begins with; 0 when it begins with none (RFC 3629). */
static size_t utf8_length(const unsigned char *at, size_t left)
{
    size_t count = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    if (count == 0 || at[0] > 0xf4 || count > left)
        return 0;
    for (size_t i = 1; i < count; i++)
        if ((at[i] & 0xc0) != 0x80)
            return 0;
    bool overlong = (at[0] == 0xe0 && at[1] < 0xa0) || (at[0] == 0xf0 && at[1] < 0x90);
    bool surrogate = at[0] == 0xed && at[1] > 0x9f;
    bool beyond = at[0] == 0xf4 && at[1] > 0x8f;
    return overlong || surrogate || beyond ? 0 : count;
}

/* What stands for an ASCII character within a JSON text. */
static size_t escape(unsigned char c, char out[ESCAPE_SIZE])
{
    static const char digits[] = "0123456789abcdef";
    static const char from[] = "\"\\\n\r\t", to[] = "\"\\nrt";
    const char *found = strchr(from, c);
    if (found) {
        out[0] = '\\';
        out[1] = to[found - from];
        return 2;
    }
    if (c >= ' ' && c != 0x7f) {
        out[0] = (char)c;
        return 1;
    }
    memcpy(out, "\\u00", 4);
    out[4] = digits[c >> 4];
    out[5] = digits[c & 15];
    return ESCAPE_SIZE - 1;
}

/* Writes one character of a text; returns the bytes of `at` that it took. Keeps a byte free for the
 * closing quote. */
static size_t put_character(struct json *json, const char *at, size_t left)
{
    char escaped[ESCAPE_SIZE];
    size_t taken = utf8_length((const unsigned char *)at, left), count = taken;
    const char *bytes = at;
    if (taken == 0 || *at == '\0') { /* many readers of JSON take no NUL */
        taken = 1;
        bytes = REPLACEMENT;
        count = sizeof REPLACEMENT - 1;
    } else if (taken == 1) {
        bytes = escaped;
        count = escape((unsigned char)*at, escaped);
    }
    if (json->size - json->length < count + 1)
        json->full = true;
    else
        put(json, bytes, count);
    return taken;
}

/* ---- values ---- */

static bool is_key_character(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.' || c == '-';
}

/* Length of the key that `at` begins with and a '=' follows; 0: there is none. */
static size_t key_length(const char *at, const char *end)
{
    const char *start = at;
    while (at < end && is_key_character(*at))
        at++;
    return at < end && *at == '=' ? (size_t)(at - start) : 0;
}

static bool is_text_key(const char *key, size_t length)
{
    for (size_t i = 0; i < sizeof text_keys / sizeof *text_keys; i++)
        if (strlen(text_keys[i]) == length && memcmp(text_keys[i], key, length) == 0)
            return true;
    return false;
}

static size_t digits_at(const char *at, const char *end)
{
    const char *start = at;
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return (size_t)(at - start);
}

/* Whether JSON and every reader's double take the value as it is. */
static bool is_number(const char *at, const char *end)
{
    const char *start = at;
    at += at < end && *at == '-';
    size_t whole = digits_at(at, end);
    if (whole == 0 || (whole > 1 && *at == '0') || end - start > DIGITS_MAX)
        return false;
    at += whole;
    if (at == end)
        return true;
    return *at == '.' && digits_at(at + 1, end) > 0 && at + 1 + digits_at(at + 1, end) == end;
}

static bool is_word(const char *at, const char *end, const char *word)
{
    return (size_t)(end - at) == strlen(word) && memcmp(at, word, strlen(word)) == 0;
}

/* The end of a value without quotes: the next key's blank. Words that belong to no key are part of
 * the value before them. */
static const char *plain_end(const char *at, const char *end)
{
    while (at < end && !(*at == ' ' && (at + 1 == end || key_length(at + 1, end) > 0)))
        at++;
    return at;
}

/* Returns where the value ends. */
static const char *put_plain(struct json *json, const char *at, const char *end, bool text)
{
    const char *stop = plain_end(at, end);
    if (!text && (is_number(at, stop) || is_word(at, stop, "true") || is_word(at, stop, "false"))) {
        put(json, at, (size_t)(stop - at));
        return stop;
    }
    put(json, "\"", 1);
    while (at < stop && !json->full)
        at += put_character(json, at, (size_t)(stop - at));
    return stop;
}

/* The character that log_quote has written as a backslash and `letter`. */
static char unescaped(char letter)
{
    static const char from[] = "nrt", to[] = "\n\r\t";
    const char *found = letter != '\0' ? strchr(from, letter) : NULL;
    return found ? to[found - from] : letter;
}

/* The same for a value in quotes; a line that was cut may lack the closing one. */
static const char *put_quoted(struct json *json, const char *at, const char *end)
{
    put(json, "\"", 1);
    while (at < end && *at != '"' && !json->full) {
        if (*at == '\\' && at + 1 < end) {
            char c = unescaped(at[1]);
            put_character(json, &c, 1);
            at += 2;
        } else {
            at += put_character(json, at, (size_t)(end - at));
        }
    }
    return at < end ? at + 1 : end;
}

/* Writes the pair that `at` begins with, as far as there is room; returns where it ends. */
static const char *put_pair(struct json *json, const char *at, const char *end)
{
    static const char stray[] =
        "text"; /* words behind a quoted value, which no event of ours has */
    enum { AROUND = sizeof ",\"\":\"\"" };
    size_t length = key_length(at, end);
    const char *key = length > 0 ? at : stray, *value = length > 0 ? at + length + 1 : at;
    length = length > 0 ? length : sizeof stray - 1;
    if (json->size - json->length < length + AROUND) {
        json->full = true;
        return end;
    }
    size_t start = json->length;
    put(json, ",", start > 1 ? 1 : 0);
    put(json, "\"", 1);
    put(json, key, length);
    put(json, "\":", 2);
    size_t before = json->length;
    if (value < end && *value == '"')
        value = put_quoted(json, value + 1, end);
    else
        value = put_plain(json, value, end, is_text_key(key, length));
    if (json->length == before) { /* a number without room */
        json->length = start;
        return end;
    }
    if (json->text[before] == '"')
        json->text[json->length++] = '"';
    return value;
}

size_t log_json(const char *line, size_t length, bool cut, char *out, size_t size)
{
    const char *at = line, *end = line + length;
    assert(size >= LOG_JSON_MIN);
    struct json json = {.text = out, .size = size - (sizeof TAIL - 1)};
    put(&json, "{", 1);
    while (at < end && !json.full) {
        while (at < end && *at == ' ')
            at++;
        if (at < end)
            at = put_pair(&json, at, end);
    }
    const char *tail = json.full || cut ? TAIL : "}";
    tail += *tail == ',' && json.length == 1; /* not a comma behind the brace */
    memcpy(out + json.length, tail, strlen(tail));
    return json.length + strlen(tail);
}

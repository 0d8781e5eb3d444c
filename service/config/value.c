/* The values of options: checks them, shows them to the log, and stores them in fields. */
#include "service/config/value.h"

#include <stdlib.h>
#include <string.h>

#include "service/config/address.h"
#include "service/config/tokens.h"
#include "base/config_file.h"
#include "base/memory.h"

/* ---- values for the log ---- */

/* The end of a list's first URL: a space, or a comma before another scheme. Other commas separate
 * the hosts of one URL. */
static const char *url_end(const char *url)
{
    for (; *url && *url != ' '; url++) {
        const char *next = url + strspn(url, ", ");
        if (next > url && url_scheme_end(next))
            break;
    }
    return url;
}

/* Copies the next URL of a list and advances behind it; false at the list's end. */
static bool url_next(const char **list, char url_out[CONFIG_VALUE_MAX])
{
    *list += strspn(*list, ", ");
    const char *end = url_end(*list);
    snprintf(url_out, CONFIG_VALUE_MAX, "%.*s", (int)(end - *list), *list);
    *list = end;
    return url_out[0] != '\0';
}

/* Writes a list's URLs, masked or not, separated by single spaces, the only form that the lock
 * library reads. */
static void write_urls(const char *list, bool masked, char *urls_out, size_t size)
{
    char url[CONFIG_VALUE_MAX], shown[CONFIG_VALUE_MAX];
    size_t length = 0;
    urls_out[0] = '\0';
    while (url_next(&list, url)) {
        if (masked)
            url_mask(url, shown, sizeof shown);
        int written = snprintf(urls_out + length, size - length, "%s%s", length > 0 ? " " : "",
                               masked ? shown : url);
        length += (size_t)written < size - length ? (size_t)written : size - length - 1;
    }
}

/* True when every word looks like a URL: a password with a blank must not pass for two URLs. */
static bool is_list(const char *text)
{
    for (text += strspn(text, " "); *text; text += strspn(text, " ")) {
        if (!url_scheme_end(text))
            return false;
        text += strcspn(text, " ");
    }
    return true;
}

void value_mask(const struct option *option, const char *value, char *masked_out, size_t size)
{
    if (option->type == URLS || (option->type == URL && is_list(value)))
        write_urls(value, true, masked_out, size);
    else if (option->type == URL)
        url_mask(value, masked_out, size);
    else
        snprintf(masked_out, size, "%s", option->type == SECRETS && *value ? "***" : value);
}

void value_print_allowed(FILE *stream, const struct option *option)
{
    switch (option->type) {
    case ADDRESS:
        fprintf(stream, "host:port with a port from 0 to 65535");
        break;
    case LISTENER:
        fprintf(stream, "host:port with a port from 0 to 65535, or unix:/path with up to %d bytes",
                ENDPOINT_PATH_SIZE - 1);
        break;
    case URL:
        fprintf(stream, "%s", url_form(option->detail));
        break;
    case URLS:
        fprintf(stream, "URLs separated by spaces or commas, of these schemes: %s", option->detail);
        break;
    case SECRETS:
        fprintf(stream, "up to %d texts of up to %d visible ASCII characters, separated by commas",
                SECRETS_MAX, SECRET_MAX);
        break;
    case PATH:
        fprintf(stream, "the name of a file");
        break;
    case UNSIGNED:
    case INTEGER:
        fprintf(stream, "an integer from %ld to %ld", option->min, option->max);
        if (option->detail[0])
            fprintf(stream, " (%s)", option->detail);
        break;
    case CHOICE:
        fprintf(stream, "one of: %s", option->detail);
        break;
    case NETWORKS:
        fprintf(stream, "up to %d addresses or networks (address/bits) separated by commas",
                NETWORKS_MAX);
        break;
    }
}

/* ---- checks ---- */

/* Stricter than strtol, which reads " 12", "+12" and, of "12ms", the 12. */
static bool parse_integer(const char *text, long min, long max, long *value_out)
{
    *value_out = 0;
    const char *digits = text[0] == '-' ? text + 1 : text;
    size_t length = strlen(digits);
    if (length == 0 || strspn(digits, "0123456789") != length)
        return false;
    *value_out = strtol(text, NULL, 10); /* overflow gives LONG_MAX, which no option allows */
    return *value_out >= min && *value_out <= max;
}

/* True when the word is one of the choices, which single spaces separate. */
static bool check_choice(const char *word, const char *choices)
{
    size_t length = strlen(word);
    for (const char *at = choices; *at;) {
        size_t choice = strcspn(at, " ");
        if (choice == length && strncmp(at, word, length) == 0)
            return true;
        at += choice + (at[choice] == ' ');
    }
    return false;
}

/* True when each URL of the list has one of the schemes, and its scheme's form. */
static bool check_urls(const char *list, const char *schemes, char why_out[URL_ERROR_SIZE])
{
    char url[CONFIG_VALUE_MAX];
    struct url parts;
    while (url_next(&list, url)) {
        const char *scheme = url_scheme(url);
        if (!scheme || !check_choice(scheme, schemes) ||
            !url_parse(url, scheme, &parts, why_out, URL_ERROR_SIZE))
            return false;
    }
    return true;
}

/* True when the value is of the option's kind; a number goes to `number_out`. For a refused URL
 * `why_out` tells which part is wrong. */
static bool check_value(const struct option *option, const char *value, long *number_out,
                        char why_out[URL_ERROR_SIZE])
{
    const char *end = value + strlen(value);
    struct url parts;
    *number_out = 0;
    why_out[0] = '\0';
    if (option->type != SECRETS &&
        end - value >= CONFIG_VALUE_MAX) /* so that no buffer of that size ever cuts it */
        return false;
    switch (option->type) {
    case ADDRESS:
        return endpoint_parse(value, &(struct endpoint){.host = ""});
    case LISTENER:
        return !value[0] || endpoint_path(value) ||
               endpoint_parse(value, &(struct endpoint){.host = ""});
    case URL:
        return url_parse(value, option->detail, &parts, why_out, URL_ERROR_SIZE);
    case URLS:
        return check_urls(value, option->detail, why_out);
    case SECRETS:
        return secrets_parse(value, &(struct secrets){.count = 0});
    case PATH: /* opening the file reports errors better */
        return true;
    case UNSIGNED:
    case INTEGER:
        return parse_integer(value, option->min, option->max, number_out);
    case CHOICE:
        return check_choice(value, option->detail);
    case NETWORKS:
        return networks_parse(value, &(struct networks){.count = 0});
    }
    return false;
}

/* ---- the struct ---- */

/* CONFIG_FIELD_… defines the field's type for the option's type. */
static void *field_of(const struct config *config, const struct option *option)
{
    return (char *)config + option->offset;
}

static bool is_text(const struct option *option)
{
    return option->type != UNSIGNED && option->type != INTEGER;
}

static void set_text(char **field, const char *text)
{
    char *copy = memory_must(strdup(text));
    free(*field);
    *field = copy;
}

bool value_set(struct config *config, const struct option *option, const char *value,
               char why_out[URL_ERROR_SIZE])
{
    long number;
    char urls[CONFIG_VALUE_MAX];
    if (!check_value(option, value, &number, why_out))
        return false;
    if (option->type == URLS) {
        write_urls(value, false, urls, sizeof urls);
        value = urls;
    }
    if (is_text(option))
        set_text(field_of(config, option), value);
    else if (option->type == UNSIGNED)
        *(unsigned *)field_of(config, option) = (unsigned)number;
    else
        *(int *)field_of(config, option) = (int)number;
    return true;
}

static size_t size_of(const struct option *option)
{
    return is_text(option) ? sizeof(char *) : sizeof(unsigned);
}

bool value_equal(const struct config *a, const struct config *b, const struct option *option)
{
    const void *one = field_of(a, option), *other = field_of(b, option);
    if (is_text(option))
        return strcmp(*(char *const *)one, *(char *const *)other) == 0;
    return memcmp(one, other, size_of(option)) == 0;
}

void value_swap(struct config *a, struct config *b, const struct option *option)
{
    char kept[sizeof(char *)];
    memcpy(kept, field_of(a, option), size_of(option));
    memcpy(field_of(a, option), field_of(b, option), size_of(option));
    memcpy(field_of(b, option), kept, size_of(option));
}

void value_show(const struct config *config, const struct option *option,
                char text_out[CONFIG_VALUE_MAX])
{
    const void *field = field_of(config, option);
    if (is_text(option))
        value_mask(option, *(char *const *)field, text_out, CONFIG_VALUE_MAX);
    else if (option->type == UNSIGNED)
        snprintf(text_out, CONFIG_VALUE_MAX, "%u", *(const unsigned *)field);
    else
        snprintf(text_out, CONFIG_VALUE_MAX, "%d", *(const int *)field);
}

void value_clear(struct config *config, const struct option *option)
{
    if (!is_text(option))
        return;
    char **field = field_of(config, option);
    free(*field);
    *field = NULL;
}

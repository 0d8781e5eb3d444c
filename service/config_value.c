/* The values of options: how they may be shown, what is allowed, and how they become fields. */
#include "service/config_private.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/url.h"
#include "service/log.h"
#include "service/networks.h"

#define SECRET_MAX 256

const struct option config_options[OPTION_COUNT] = {
#define OPTION(type, name, initial, detail, min, max, doc)                                         \
    {type, #name, initial, detail, min, max, doc, offsetof(struct config, name)},
    CONFIG_OPTIONS(OPTION)
#undef OPTION
};

/* ---- values as they may be shown ---- */

/*
 * Writes the URL with *** for its password. Also for what is no URL: a secret may stand in it all
 * the same.
 */
static void mask_url(const char *url, char *masked_out, size_t size)
{
    const char *scheme_end = url_scheme_end(url);
    const char *user = scheme_end ? scheme_end + 3 : url;
    const char *at = strrchr(user, '@');
    const char *colon = at ? memchr(user, ':', (size_t)(at - user)) : NULL;
    /* Alone before the @ stands a user for most, but a password for some who write Redis URLs. */
    bool lone_secret = at && !colon && strncasecmp(url, "redis", 5) == 0;
    if (colon || lone_secret)
        snprintf(masked_out, size, "%.*s***%s", (int)((colon ? colon + 1 : user) - url), url, at);
    else
        snprintf(masked_out, size, "%s", url);
}

/* The end of the first URL of a list: a space, or a comma before another scheme. The hosts of one
 * URL have commas between them as well. */
static const char *url_end(const char *url)
{
    for (; *url && *url != ' '; url++) {
        const char *next = url + strspn(url, ", ");
        if (next > url && url_scheme_end(next))
            break;
    }
    return url;
}

/* Copies the next URL of a list and moves on behind it; false at the end of the list. */
static bool url_next(const char **list, char url_out[CONFIG_VALUE_MAX])
{
    *list += strspn(*list, ", ");
    const char *end = url_end(*list);
    snprintf(url_out, CONFIG_VALUE_MAX, "%.*s", (int)(end - *list), *list);
    *list = end;
    return url_out[0] != '\0';
}

/* Writes the URLs of a list one space apart, masked or as they are. */
static void write_urls(const char *list, bool masked, char *urls_out, size_t size)
{
    char url[CONFIG_VALUE_MAX], shown[CONFIG_VALUE_MAX];
    size_t length = 0;
    urls_out[0] = '\0';
    while (url_next(&list, url)) {
        if (masked)
            mask_url(url, shown, sizeof shown);
        int written = snprintf(urls_out + length, size - length, "%s%s", length > 0 ? " " : "",
                               masked ? shown : url);
        length += (size_t)written < size - length ? (size_t)written : size - length - 1;
    }
}

static void mask_value(const struct option *option, const char *value, char *masked_out,
                       size_t size)
{
    if (option->type == URL)
        mask_url(value, masked_out, size);
    else if (option->type == URLS)
        write_urls(value, true, masked_out, size);
    else
        snprintf(masked_out, size, "%s", option->type == SECRET && *value ? "***" : value);
}

void config_print_allowed(FILE *stream, const struct option *option)
{
    switch (option->type) {
    case ADDRESS:
        fprintf(stream, "host:port with a port from 0 to 65535");
        break;
    case URL:
        fprintf(stream, "%s", url_form(option->detail));
        break;
    case URLS:
        fprintf(stream, "URLs apart by spaces or commas, of these schemes: %s", option->detail);
        break;
    case SECRET:
        fprintf(stream, "up to %d visible ASCII characters without spaces", SECRET_MAX);
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
        fprintf(stream, "up to %d addresses or networks (address/bits) with commas between",
                NETWORKS_MAX);
        break;
    }
}

void config_print_origin(const struct loader *loader, const struct option *option)
{
    const struct setting *setting = &loader->settings[option - config_options];
    char name[NAME_MAX_LENGTH];
    switch (setting->origin) {
    case ORIGIN_DEFAULT:
        fprintf(loader->err, "the default");
        break;
    case ORIGIN_FILE:
        fprintf(loader->err, "%s:%u", loader->path, setting->line);
        break;
    case ORIGIN_ENVIRONMENT:
        config_write_variable(option, name);
        fprintf(loader->err, "the environment variable %s", name);
        break;
    case ORIGIN_FLAG:
        config_write_flag(option, name);
        fprintf(loader->err, "the flag --%s", name);
        break;
    }
}

void config_print_complaint(const struct loader *loader, const struct option *option)
{
    char masked[CONFIG_VALUE_MAX];
    mask_value(option, loader->settings[option - config_options].value, masked, sizeof masked);
    fprintf(loader->err, PROGRAM ": %s = %s (from ", option->name, LOG_QUOTE(masked));
    config_print_origin(loader, option);
    fprintf(loader->err, "): ");
}

/* ---- checks ---- */

/* Visible ASCII from `from` up to `to`. */
static bool is_visible(const char *from, const char *to)
{
    for (; from < to; from++)
        if (*from <= ' ' || *from >= 0x7f)
            return false;
    return true;
}

static bool parse_integer(const char *text, long min, long max, long *value_out)
{
    *value_out = 0;
    const char *digits = text[0] == '-' ? text + 1 : text;
    size_t length = strlen(digits);
    if (length == 0 || strspn(digits, "0123456789") != length)
        return false;
    *value_out = strtol(text, NULL, 10); /* far too large: LONG_MAX, which no option allows */
    return *value_out >= min && *value_out <= max;
}

/* host:port or [host]:port from `from` up to `to`. */
static bool check_address(const char *from, const char *to)
{
    const char *host_end = memchr(from, *from == '[' ? ']' : ':', (size_t)(to - from));
    if (!host_end)
        return false;
    const char *colon = *from == '[' ? host_end + 1 : host_end;
    if (host_end == from || (*from == '[' && host_end == from + 1) || !is_visible(from, to))
        return false;
    if (colon == to)
        return false;
    char port[8];
    long number;
    size_t length = (size_t)(to - colon) - 1;
    if (*colon != ':' || length >= sizeof port)
        return false;
    memcpy(port, colon + 1, length);
    port[length] = '\0';
    return parse_integer(port, 0, 65535, &number) && port[0] != '-';
}

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

/* Each URL of the list is of one of the schemes, and of that scheme's form. */
static bool check_urls(const char *list, const char *schemes, char why_out[URL_ERROR_SIZE])
{
    char url[CONFIG_VALUE_MAX], scheme[CONFIG_VALUE_MAX];
    struct url parts;
    while (url_next(&list, url)) {
        const char *end = url_scheme_end(url);
        snprintf(scheme, sizeof scheme, "%.*s", end ? (int)(end - url) : 0, url);
        if (!check_choice(scheme, schemes) ||
            !url_parse(url, scheme, &parts, why_out, URL_ERROR_SIZE))
            return false;
    }
    return true;
}

/* Whether the value is of the option's kind; its number, if it is one. When it is not, `why_out`
 * may say more than config_print_allowed does. */
static bool check_value(const struct option *option, const char *value, long *number_out,
                        char why_out[URL_ERROR_SIZE])
{
    const char *end = value + strlen(value);
    struct url parts;
    *number_out = 0;
    why_out[0] = '\0';
    if (end - value >= CONFIG_VALUE_MAX)
        return false;
    switch (option->type) {
    case ADDRESS:
        return check_address(value, end);
    case URL:
        return url_parse(value, option->detail, &parts, why_out, URL_ERROR_SIZE);
    case URLS:
        return check_urls(value, option->detail, why_out);
    case SECRET:
        return end - value <= SECRET_MAX && is_visible(value, end);
    case PATH:
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
    char *copy = strdup(text);
    if (!copy)
        abort(); /* at start, with nothing to lose */
    free(*field);
    *field = copy;
}

static bool set_option(struct config *config, const struct option *option, const char *value,
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

bool config_set(struct config *config, const struct option *option, const char *value)
{
    char why[URL_ERROR_SIZE];
    return set_option(config, option, value, why);
}

bool config_apply(const struct loader *loader, const struct option *option, struct config *config)
{
    char why[URL_ERROR_SIZE];
    if (set_option(config, option, loader->settings[option - config_options].value, why))
        return true;
    config_print_complaint(loader, option);
    if (option->type != URL || why[0] == '\0') {
        fprintf(loader->err, "must be ");
        config_print_allowed(loader->err, option);
        if (why[0] != '\0')
            fprintf(loader->err, "; one is ");
    }
    fprintf(loader->err, "%s\n", why);
    return false;
}

size_t config_print(const struct config *config, char *buffer, size_t size)
{
    size_t length = 0;
    if (size > 0)
        buffer[0] = '\0';
    for (size_t i = 0; i < OPTION_COUNT; i++) {
        const struct option *option = &config_options[i];
        const void *field = field_of(config, option);
        char value[CONFIG_VALUE_MAX];
        if (is_text(option))
            mask_value(option, *(char *const *)field, value, sizeof value);
        else if (option->type == UNSIGNED)
            snprintf(value, sizeof value, "%u", *(const unsigned *)field);
        else
            snprintf(value, sizeof value, "%d", *(const int *)field);
        bool full = length >= size;
        int written = snprintf(full ? NULL : buffer + length, full ? 0 : size - length, "%s%s=%s",
                               i > 0 ? " " : "", option->name, LOG_QUOTE(value));
        assert(written >= 0);
        length += (size_t)written;
    }
    return length;
}

void config_free(struct config *config)
{
    for (size_t i = 0; i < OPTION_COUNT; i++)
        if (is_text(&config_options[i]))
            free(*(char **)field_of(config, &config_options[i]));
    memset(config, 0, sizeof *config);
}

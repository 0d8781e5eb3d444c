/* The settings of a sale as JSON: read from a body, written in an answer. */
#include "service/calls/calls.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "service/service.h"
#include "sql/ledger/ledger.h"

#define TIME_FORM                                                                                  \
    " must be null or an RFC 3339 time with Z or an offset, like 2026-11-20T21:30:00Z or "         \
    "2026-11-21T05:30:00+08:00, from the year 2000 to 9999 in UTC."

/* The i-th setting has the i-th bit of stock_change.fields. */
static const struct call_field settings_fields[FIELDS_MAX] = {
    {"starts_at", FIELD_TIME_OR_NULL, offsetof(struct ledger_settings, starts_ms),
     .detail = "starts_at" TIME_FORM},
    {"ends_at", FIELD_TIME_OR_NULL, offsetof(struct ledger_settings, ends_ms),
     .detail = "ends_at" TIME_FORM},
    {"per_user_limit", FIELD_NUMBER_OR_NULL, offsetof(struct ledger_settings, per_user_limit),
     "per_user_limit must be null or a whole number from 1 to 10000000.", .min = 1,
     .max = PER_USER_LIMIT_MAX},
    {"pay_within_s", FIELD_NUMBER_OR_NULL, offsetof(struct ledger_settings, pay_within_s),
     "pay_within_s must be null or a whole number from 1 to 2592000.", .min = 1,
     .max = PAY_WITHIN_S_MAX},
    {"paused", FIELD_SWITCH, offsetof(struct ledger_settings, paused),
     .detail = "paused must be true or false."},
    {"late_payment", FIELD_WORD, offsetof(struct ledger_settings, refund_late),
     .detail = "late_payment must be \"retake\" or \"refund\".", .words = {"retake", "refund"}},
    {"hold_max_s", FIELD_NUMBER_OR_NULL, offsetof(struct ledger_settings, hold_max_s),
     "hold_max_s must be null or a whole number from 1 to 2592000.", .min = 1,
     .max = PAY_WITHIN_S_MAX},
    {"grace_s", FIELD_NUMBER_OR_NULL, offsetof(struct ledger_settings, grace_s),
     "grace_s must be null or a whole number from 0 to 86400.", .max = GRACE_S_MAX},
};

static_assert(STOCK_CHANGE_STARTS == 1 << 0 && STOCK_CHANGE_ENDS == 1 << 1 &&
                  STOCK_CHANGE_LIMIT == 1 << 2 && STOCK_CHANGE_PAY == 1 << 3 &&
                  STOCK_CHANGE_PAUSED == 1 << 4 && STOCK_CHANGE_LATE == 1 << 5 &&
                  STOCK_CHANGE_HOLD == 1 << 6 && STOCK_CHANGE_GRACE == 1 << 7 &&
                  STOCK_CHANGE_ALL == (1 << FIELDS_MAX) - 1,
              "the order of settings_fields");

const char *sale_settings_read(const json_t *object, struct stock_change *change_out)
{
    struct ledger_settings *settings = &change_out->settings;
    memset(change_out, 0, sizeof *change_out);
    const char *detail = call_read_fields(object, settings_fields, settings, &change_out->fields);
    /* Checks only the body's members; stock_change compares with a setting that stays. */
    bool reversed = settings->ends_ms != 0 && settings->ends_ms <= settings->starts_ms;
    return !detail && reversed ? "ends_at must be later than starts_at." : detail;
}

/* The setting as text, possibly in `buffer`; NULL when it is not set. */
static const char *setting_text(const struct ledger_settings *settings,
                                const struct call_field *field, char buffer[LEDGER_TIME_SIZE])
{
    const void *value = (const char *)settings + field->at;
    if (field->kind == FIELD_SWITCH)
        return *(const bool *)value ? "true" : "false";
    if (field->kind == FIELD_WORD)
        return field->words[*(const bool *)value];
    if (field->kind == FIELD_TIME_OR_NULL) {
        int64_t ms = *(const int64_t *)value;
        ledger_time_format(ms, buffer);
        return ms != 0 ? buffer : NULL;
    }
    uint32_t number = *(const uint32_t *)value;
    snprintf(buffer, LEDGER_TIME_SIZE, "%u", number);
    return number != 0 ? buffer : NULL;
}

void sale_settings_add(json_t *object, const struct ledger_settings *settings)
{
    char buffer[LEDGER_TIME_SIZE];
    for (size_t i = 0; i < FIELDS_MAX; i++) {
        const struct call_field *field = &settings_fields[i];
        const char *text = setting_text(settings, field, buffer);
        if (text) /* numbers, true and false are valid JSON */
            json_object_set_new(object, field->name,
                                field->kind == FIELD_TIME_OR_NULL || field->kind == FIELD_WORD
                                    ? json_string(text)
                                    : json_loads(text, JSON_DECODE_ANY, NULL));
    }
    if (settings->counting)
        json_object_set_new(object, "counting", json_true());
}

json_t *sale_json(const struct ledger_sale *sale)
{
    json_t *object =
        json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "sku", sale->sku, "round", (int)sale->round,
                  "total", (int)sale->total, "segments", (int)sale->segments, "sold",
                  (int)sale->sold, "available", (int)(sale->total - sale->sold));
    sale_settings_add(object, &sale->settings);
    return object;
}

const char *sale_settings_log(const struct stock_change *change, char out[SALE_SETTINGS_LOG_SIZE])
{
    char buffer[LEDGER_TIME_SIZE];
    int length = 0;
    out[0] = '\0';
    for (size_t i = 0; i < FIELDS_MAX; i++) {
        if (!(change->fields & 1U << i))
            continue;
        const char *text = setting_text(&change->settings, &settings_fields[i], buffer);
        length += snprintf(out + length, SALE_SETTINGS_LOG_SIZE - (size_t)length, " %s=%s",
                           settings_fields[i].name, text ? text : "none");
        assert(length < SALE_SETTINGS_LOG_SIZE);
    }
    return out;
}

/* Webhooks as rows of the ledger. */
#include "sql/events/webhooks.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "sql/ledger/ledger_query.h"

#define NAME(id, name) name,
const char *const webhook_state_names[] = {WEBHOOK_STATES(NAME)};
const char *const webhook_reason_names[] = {WEBHOOK_REASONS(NAME)};
const char *const webhook_wait_names[] = {WEBHOOK_WAITS(NAME)};
#undef NAME

/* Returns `count` when the list has no such name. */
static unsigned number_of(const char *const *names, unsigned count, const char *name)
{
    unsigned i = 0;
    while (i < count && strcmp(names[i], name ? name : "") != 0)
        i++;
    return i;
}

bool webhook_wants(const struct webhook_settings *settings, const struct ledger_event *event)
{
    bool sku = settings->sku_count == 0;
    for (size_t i = 0; i < settings->sku_count && !sku; i++)
        sku = strcmp(settings->skus[i], event->sku) == 0;
    return sku && (settings->types == 0 || settings->types & UINT32_C(1) << event->type);
}

uint64_t webhook_lag(const struct ledger_webhook *webhook, const struct ledger_event_bounds *bounds)
{
    uint64_t position = webhook->progress.position;
    return bounds->next > position ? bounds->next - position : 0;
}

/* ---- rows ---- */

static_assert(LEDGER_EVENT_TYPES <= 32, "webhook_settings.types has a bit for each");

#define MS(column) LEDGER_MS_OF(column)
#define ASIDE(what, which)                                                                         \
    "(SELECT " what " FROM webhook_undelivered u WHERE u.webhook=webhook.name AND "                \
    "given_up_at IS " which ")"
#define COLUMN(name, ...) "," #name
#define ASIDE_COLUMNS ASIDE("SUM(events)", "NOT NULL") "," MS(ASIDE("MIN(failing_since)", "NULL"))
#define WEBHOOK_SELECT                                                                             \
    "SELECT name,url,types,skus,cloudevents,headers,secret,"                                       \
    "IF(old_secret_until>UTC_TIMESTAMP(3),old_secret,NULL),generation,position,state,reason,"      \
    "failures," MS("failing_since") "," MS("next_try_at") "," MS(                                  \
        "last_at") ",last_status,"                                                                 \
                   "last_answer,delivered," MS("created_at") ",wait_reason," ASIDE_COLUMNS         \
                   WEBHOOK_NUMBERS(COLUMN) " FROM webhook "
enum { NUMBERS_AT = 23 }; /* the columns of WEBHOOK_NUMBERS */

/* Copies the next name of a list with commas between, and moves on; false when it is too long. */
static bool next_name(const char **at, char name_out[IDENTIFIER_SIZE])
{
    size_t length = strcspn(*at, ",");
    bool good = identifier_copy(*at, length, name_out);
    *at += length;
    *at += **at == ',';
    return good;
}

static bool read_types(uint32_t *types_out, const char *at)
{
    char name[IDENTIFIER_SIZE];
    while (*at) {
        next_name(&at, name); /* "" is no type */
        enum ledger_event_type type = ledger_event_type_of(name);
        if (type == LEDGER_EVENT_TYPES)
            return false;
        *types_out |= UINT32_C(1) << type;
    }
    return true;
}

static void copy(char *out, size_t size, const char *column)
{
    snprintf(out, size, "%s", column ? column : "");
}

static bool read_settings(struct webhook_settings *settings, char **row)
{
    size_t at = NUMBERS_AT;
    *settings = (struct webhook_settings){.cloudevents = ledger_u32(row[4])};
    copy(settings->headers, sizeof settings->headers, row[5]);
    if (!row[1] || !row[2] || !row[3] || strlen(row[1]) >= sizeof settings->url ||
        !read_types(&settings->types, row[2]))
        return false;
    strcpy(settings->url, row[1]);
    for (const char *sku = row[3]; *sku;)
        if (settings->sku_count == WEBHOOK_SKUS_MAX ||
            !next_name(&sku, settings->skus[settings->sku_count++]))
            return false;
#define READ(name, min, max, usual)                                                                \
    if (!ledger_number_valid(row[at], min, max))                                                   \
        return false;                                                                              \
    settings->name = ledger_u32(row[at++]);
    WEBHOOK_NUMBERS(READ)
#undef READ
    return true;
}

static bool read_webhook(struct ledger *ledger, struct ledger_webhook *webhook, char **row)
{
    unsigned state = number_of(webhook_state_names, WEBHOOK_STATE_COUNT, row[10]);
    unsigned reason = number_of(webhook_reason_names, WEBHOOK_REASON_COUNT, row[11]);
    unsigned wait = number_of(webhook_wait_names, WEBHOOK_WAIT_COUNT, row[20]);
    if (!ledger_identifier_read(webhook->name, row[0]) || !read_settings(&webhook->settings, row) ||
        !ledger_number_valid(row[9], 1, UINT64_MAX) || state == WEBHOOK_STATE_COUNT ||
        reason == WEBHOOK_REASON_COUNT || wait == WEBHOOK_WAIT_COUNT) {
        ledger_note_damage(ledger, "webhook: name '%s'", row[0] ? row[0] : "NULL");
        return false;
    }
    copy(webhook->secret, sizeof webhook->secret, row[6]);
    copy(webhook->old_secret, sizeof webhook->old_secret, row[7]);
    webhook->generation = ledger_u64(row[8]);
    webhook->state = (enum webhook_state)state;
    webhook->reason = (enum webhook_reason)reason;
    webhook->created_ms = (int64_t)ledger_u64(row[19]);
    webhook->undelivered = ledger_u32(row[21]);
    webhook->retrying_since_ms = (int64_t)ledger_u64(row[22]);
    struct webhook_progress *progress = &webhook->progress;
    *progress = (struct webhook_progress){
        .position = ledger_u64(row[9]),
        .failures = ledger_u32(row[12]),
        .failing_since_ms = (int64_t)ledger_u64(row[13]),
        .next_try_ms = (int64_t)ledger_u64(row[14]),
        .last_ms = (int64_t)ledger_u64(row[15]),
        .wait = (enum webhook_wait)wait,
        .last_status = ledger_u32(row[16]),
        .delivered = ledger_u64(row[18]),
    };
    copy(progress->last_answer, sizeof progress->last_answer, row[17]);
    return true;
}

enum ledger_result ledger_webhooks_list(struct ledger *ledger, struct ledger_webhook *webhooks_out,
                                        size_t *count_out)
{
    *count_out = 0;
    sql_begin(&ledger->sql, WEBHOOK_SELECT "ORDER BY name LIMIT %d", WEBHOOKS_MAX);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db))
        *count_out += read_webhook(ledger, &webhooks_out[*count_out], row);
    return LEDGER_OK;
}

enum ledger_result ledger_webhook_find(struct ledger *ledger, const char *name,
                                       struct ledger_webhook *webhook_out)
{
    char **row;
    enum ledger_result result = ledger_read_row(ledger, &row, WEBHOOK_SELECT "WHERE name=%s", name);
    bool damaged = result == LEDGER_OK && !read_webhook(ledger, webhook_out, row);
    return damaged ? LEDGER_DAMAGED : result;
}

/* ---- operators ---- */

/* Appends a column's text in hexadecimal, because it may have any signs, and a comma. `plain`: a ?
 * stands for what is no visible sign of ASCII. */
static void text_hex(struct sql_text *sql, const char *column, const char *text, bool plain)
{
    static const char digits[] = "0123456789abcdef";
    sql_printf(sql, "%-sX'", column);
    for (; *text; text++) {
        unsigned char sign = plain && (*text < ' ' || *text > '~') ? '?' : (unsigned char)*text;
        sql_append(sql, (const char[2]){digits[sign / 16], digits[sign % 16]}, 2);
    }
    sql_append(sql, "',", 2);
}

static void text_settings(struct sql_text *sql, const struct webhook_settings *settings)
{
#define TEXT(name, ...) sql_printf(sql, #name "=%u,", settings->name);
    WEBHOOK_NUMBERS(TEXT)
#undef TEXT
    sql_printf(sql, "url=%s,cloudevents=%d,", settings->url, settings->cloudevents);
    if (!settings->headers_stay)
        text_hex(sql, "headers=", settings->headers, false);
    sql_printf(sql, "types='");
    const char *comma = "";
    for (int i = 0; i < LEDGER_EVENT_TYPES; i++) {
        if (!(settings->types & UINT32_C(1) << i))
            continue;
        sql_printf(sql, "%-s%-s", comma, ledger_event_name((enum ledger_event_type)i));
        comma = ",";
    }
    sql_printf(sql, "',skus='");
    for (size_t i = 0; i < settings->sku_count; i++) {
        sql_append(sql, ",", i > 0);
        sql_append_value(sql, settings->skus[i]);
    }
    sql_printf(sql, "'");
}

#define TRIED_AT_ONCE                                                                              \
    "generation=generation+1,failures=0,failing_since=NULL,next_try_at=NULL,wait_reason=NULL"
#define ACTIVE_AGAIN "reason=NULL,state=IF(state='disabled','active',state)"

static enum db_result change(struct ledger *ledger, const char *name,
                             const struct webhook_settings *settings, const char *secret)
{
    struct sql_text *sql = &ledger->sql;
    sql_begin(sql, "UPDATE webhook SET " TRIED_AT_ONCE "," ACTIVE_AGAIN ",");
    if (secret)
        sql_printf(sql,
                   "old_secret=secret,old_secret_until=UTC_TIMESTAMP(3)+INTERVAL %d HOUR,"
                   "secret=%s,",
                   WEBHOOK_SECRET_HOURS, secret);
    text_settings(sql, settings);
    sql_printf(sql, " WHERE name=%s", name);
    return ledger_query(ledger);
}

/* The generation counts on from the time in us, so that it is greater than any of a webhook of that
 * name that was deleted before: each change of that one took longer than 1 us. */
static enum db_result make(struct ledger *ledger, const char *name,
                           const struct webhook_settings *settings, const char *secret)
{
    struct sql_text *sql = &ledger->sql;
    sql_begin(sql,
              "INSERT INTO webhook SET name=%s,secret=%s,state='active',"
              "created_at=UTC_TIMESTAMP(3),"
              "generation=TIMESTAMPDIFF(MICROSECOND,'1970-01-01',UTC_TIMESTAMP(6)),"
              "position=(SELECT next FROM event_feed WHERE one=1),",
              name, secret);
    text_settings(sql, settings);
    sql_printf(sql, ";DELETE FROM webhook_undelivered WHERE webhook=%s", name);
    return ledger_query(ledger);
}

/* The row of the feed makes those who add webhooks take turns, so that none adds one too many. */
static enum db_result put(struct ledger *ledger, const char *name,
                          const struct webhook_settings *settings, char secret[WEBHOOK_SECRET_SIZE],
                          bool rotate, bool *created_out)
{
    char **row;
    enum db_result result = ledger_do_row(ledger, &row,
                                          "SELECT IF(old_secret_until>UTC_TIMESTAMP(3),secret,NULL)"
                                          "FROM webhook WHERE name=%s FOR UPDATE",
                                          name);
    *created_out = result == DB_NO;
    if (result == DB_OK && rotate && row[0]) {
        copy(secret, WEBHOOK_SECRET_SIZE, row[0]);
        rotate = false;
    }
    if (result == DB_OK)
        return change(ledger, name, settings, rotate ? secret : NULL);
    if (result == DB_NO)
        result = ledger_do_row(ledger, &row,
                               "SELECT next FROM event_feed WHERE one=1 FOR UPDATE;"
                               "SELECT COUNT(*)FROM webhook");
    if (result != DB_OK)
        return result;
    return ledger_u32(row[0]) < WEBHOOKS_MAX ? make(ledger, name, settings, secret) : DB_NO;
}

enum ledger_result ledger_webhook_put(struct ledger *ledger, const char *name,
                                      const struct webhook_settings *settings,
                                      char secret[WEBHOOK_SECRET_SIZE], bool rotate,
                                      bool *created_out)
{
    struct db_run run = {0};
    while (db_run(ledger->db, &run))
        run.result = put(ledger, name, settings, secret, rotate, created_out);
    return run.result == DB_NO ? LEDGER_LIMIT : ledger_from_db(run.result);
}

/* Runs ledger->sql, a change of the webhook of this name. LEDGER_NO: there is none. */
static enum ledger_result change_one(struct ledger *ledger, const char *name)
{
    struct db_run run = {0};
    sql_printf(&ledger->sql, ";SELECT 1 FROM webhook WHERE name=%s", name);
    while (db_run(ledger->db, &run)) {
        run.result = ledger_query(ledger);
        if (run.result == DB_OK && !db_row(ledger->db) && db_affected(ledger->db, 0) == 0)
            run.result = DB_NO;
    }
    return ledger_from_db(run.result);
}

enum ledger_result ledger_webhook_delete(struct ledger *ledger, const char *name)
{
    sql_begin(&ledger->sql,
              "DELETE FROM webhook WHERE name=%s;DELETE FROM webhook_undelivered WHERE webhook=%s",
              name, name);
    return change_one(ledger, name);
}

enum ledger_result ledger_webhook_pause(struct ledger *ledger, const char *name)
{
    sql_begin(&ledger->sql, "UPDATE webhook SET state='paused' WHERE name=%s AND state='active'",
              name);
    return change_one(ledger, name);
}

enum ledger_result ledger_webhook_resume(struct ledger *ledger, const char *name)
{
    sql_begin(&ledger->sql,
              "UPDATE webhook SET state='active',reason=NULL," TRIED_AT_ONCE " WHERE name=%s",
              name);
    return change_one(ledger, name);
}

enum ledger_result ledger_webhook_replay(struct ledger *ledger, const char *name, uint64_t position,
                                         struct ledger_event_bounds *bounds_out)
{
    enum ledger_result result = ledger_events_bounds(ledger, bounds_out);
    if (result != LEDGER_OK)
        return result;
    if (position < bounds_out->oldest || position > bounds_out->next)
        return LEDGER_LATE;
    sql_begin(&ledger->sql, "UPDATE webhook SET position=%ju," TRIED_AT_ONCE " WHERE name=%s",
              position, name);
    return change_one(ledger, name);
}

/* ---- requests set aside ---- */

enum ledger_result ledger_webhook_asides(struct ledger *ledger, const char *name, bool all,
                                         uint32_t size_max, webhook_aside_visit *visit,
                                         void *context)
{
    sql_begin(&ledger->sql,
              "SELECT id,events," LEDGER_MS_OF("failing_since") "," LEDGER_MS_OF(
                  "given_up_at") ",answer,IF(LENGTH(body)<=%u,body,'')FROM webhook_undelivered "
                                 "WHERE webhook=%s%-s ORDER BY failing_since LIMIT %d",
              size_max, name, all ? "" : " AND given_up_at IS NULL", WEBHOOK_UNDELIVERED_MAX);
    if (ledger_read(ledger) != DB_OK)
        return LEDGER_FAILED;
    for (char **row = db_row(ledger->db); row; row = db_row(ledger->db)) {
        struct webhook_aside aside = {.events = ledger_u32(row[1]),
                                      .failing_since_ms = (int64_t)ledger_u64(row[2]),
                                      .given_up_ms = (int64_t)ledger_u64(row[3]),
                                      .body = row[5]};
        copy(aside.answer, sizeof aside.answer, row[4]);
        if (ledger_identifier_read(aside.id, row[0]) && aside.body &&
            ledger_number_valid(row[1], 1, WEBHOOK_MAX_batch))
            visit(&aside, context);
        else
            ledger_note_damage(ledger, "webhook_undelivered: webhook %s", name);
    }
    return LEDGER_OK;
}

/* The webhook's row makes those who let requests be tried take turns. */
static enum db_result resend(struct ledger *ledger, const char *name, const char *id, bool discard)
{
    char **row;
    enum db_result result = ledger_do_row(
        ledger, &row,
        "UPDATE webhook SET " TRIED_AT_ONCE " WHERE name=%s;"
        "%-s WHERE webhook=%s AND id=%s AND given_up_at IS NOT NULL;"
        "SELECT COUNT(*)FROM webhook_undelivered WHERE webhook=%s AND given_up_at IS NULL",
        name,
        discard ? "DELETE FROM webhook_undelivered"
                : "UPDATE webhook_undelivered SET given_up_at=NULL,failing_since=UTC_TIMESTAMP(3)",
        name, id, name);
    return result != DB_OK                          ? result
           : db_affected(ledger->db, 1) == 0        ? DB_NO
           : ledger_u32(row[0]) <= WEBHOOK_OPEN_MAX ? DB_OK
                                                    : DB_CHECK;
}

enum ledger_result ledger_webhook_resend(struct ledger *ledger, const char *name, const char *id,
                                         bool discard)
{
    struct db_run run = {0};
    while (db_run(ledger->db, &run))
        run.result = resend(ledger, name, id, discard);
    return ledger_from_db(run.result);
}

/* ---- the sender ---- */

static void text_time(struct sql_text *sql, const char *column, int64_t ms)
{
    sql_printf(sql, "%-s", column);
    ledger_time_text(sql, ms);
    sql_append(sql, ",", 1);
}

enum ledger_result ledger_webhook_note(struct ledger *ledger, const struct ledger_webhook *webhook)
{
    struct sql_text *sql = &ledger->sql;
    const struct webhook_progress *progress = &webhook->progress;
    sql_begin(sql, "UPDATE webhook SET ");
    text_time(sql, "failing_since=", progress->failing_since_ms);
    text_time(sql, "next_try_at=", progress->next_try_ms);
    text_time(sql, "last_at=", progress->last_ms);
    text_hex(sql, "last_answer=", progress->last_answer, true);
    sql_printf(sql,
               "wait_reason=%s,position=GREATEST(position,%ju),delivered=delivered+%ju,failures=%u,"
               "last_status=%u "
               "WHERE name=%s AND generation=%ju",
               progress->wait ? webhook_wait_names[progress->wait] : NULL, progress->position,
               progress->delivered, progress->failures, progress->last_status, webhook->name,
               webhook->generation);
    return ledger_from_db(ledger_query(ledger));
}

enum ledger_result ledger_webhook_disable(struct ledger *ledger,
                                          const struct ledger_webhook *webhook,
                                          enum webhook_reason reason)
{
    return ledger_from_db(ledger_do(ledger,
                                    "UPDATE webhook SET state='disabled',reason=%s "
                                    "WHERE name=%s AND generation=%ju AND state='active'",
                                    webhook_reason_names[reason], webhook->name,
                                    webhook->generation));
}

enum ledger_result ledger_webhook_set_aside(struct ledger *ledger,
                                            const struct ledger_webhook *webhook,
                                            const struct webhook_aside *aside)
{
    struct sql_text *sql = &ledger->sql;
    sql_begin(sql, "INSERT INTO webhook_undelivered(failing_since,given_up_at,answer,body,webhook,"
                   "id,events)SELECT ");
    text_time(sql, "", aside->failing_since_ms);
    text_time(sql, "", aside->given_up_ms);
    text_hex(sql, "", aside->answer, true);
    text_hex(sql, "", aside->body, false);
    sql_printf(sql,
               "name,%s,%u FROM webhook WHERE name=%s AND generation=%ju AND(SELECT COUNT(*)"
               "FROM webhook_undelivered WHERE webhook=%s AND id<>%s)<%d ON DUPLICATE KEY UPDATE "
               "given_up_at=VALUES(given_up_at),answer=VALUES(answer);"
               "SELECT 1 FROM webhook_undelivered WHERE webhook=%s AND id=%s",
               aside->id, aside->events, webhook->name, webhook->generation, webhook->name,
               aside->id, WEBHOOK_UNDELIVERED_MAX, webhook->name, aside->id);
    enum db_result result = ledger_query(ledger);
    return result == DB_OK && !db_row(ledger->db) ? LEDGER_NO : ledger_from_db(result);
}

enum ledger_result ledger_webhook_delivered(struct ledger *ledger,
                                            const struct ledger_webhook *webhook, const char *id)
{
    return ledger_from_db(ledger_do(
        ledger, "DELETE FROM webhook_undelivered WHERE webhook=%s AND id=%s", webhook->name, id));
}

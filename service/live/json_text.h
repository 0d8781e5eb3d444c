/* Texts of the system and of other programs as JSON, which takes only UTF-8. */
#ifndef SECKILL_SERVICE_LIVE_JSON_TEXT_H
#define SECKILL_SERVICE_LIVE_JSON_TEXT_H

struct json_t;

/* The text as a JSON string for the caller to release; see json_text_clean. Any thread; aborts
 * without memory. */
struct json_t *json_text(const char *text);

/* Where the text is no UTF-8, each byte in it that is no ASCII becomes a question mark. Any
 * thread. */
void json_text_clean(char *text);

#endif

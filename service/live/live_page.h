/* What the dashboard shows: one text, which the live thread makes and open pages ask for. */
#ifndef SECKILL_SERVICE_LIVE_LIVE_PAGE_H
#define SECKILL_SERVICE_LIVE_LIVE_PAGE_H

struct live_page;
struct prepared;

struct live_page *live_page_open(void);

/* After all threads that use it have ended. NULL is fine. */
void live_page_close(struct live_page **page);

/* A hold of the latest text; NULL before the first. Any thread. */
struct prepared *live_page_get(struct live_page *page);

/* Replaces the text, and takes over the caller's hold of the new one. Any thread. */
void live_page_publish(struct live_page *page, struct prepared *text);

#endif

/* What the dashboard shows: one text, which the live thread makes and open pages ask for. */
#include "service/live/live_page.h"

#include <pthread.h>
#include <stdlib.h>

#include "service/request/prepared.h"

struct live_page {
    pthread_mutex_t mutex; /* guards what follows */
    struct prepared *text;
};

struct live_page *live_page_open(void)
{
    struct live_page *page = calloc(1, sizeof *page);
    if (!page)
        abort();
    pthread_mutex_init(&page->mutex, NULL);
    return page;
}

void live_page_close(struct live_page **page)
{
    if (*page) {
        prepared_release(&(*page)->text);
        pthread_mutex_destroy(&(*page)->mutex);
    }
    free(*page);
    *page = NULL;
}

struct prepared *live_page_get(struct live_page *page)
{
    pthread_mutex_lock(&page->mutex);
    struct prepared *text = page->text ? prepared_hold(page->text) : NULL;
    pthread_mutex_unlock(&page->mutex);
    return text;
}

void live_page_publish(struct live_page *page, struct prepared *text)
{
    pthread_mutex_lock(&page->mutex);
    struct prepared *before = page->text;
    page->text = text;
    pthread_mutex_unlock(&page->mutex);
    prepared_release(&before);
}

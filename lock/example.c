/* Does something that only one process may do at a time, and shows its fence to what it guards. */
#include <stdio.h>
#include <stdlib.h>

#include "lock/lock.h" /* <seclock.h> once installed */

int main(void)
{
    const char *url = getenv("SECKILL_REDIS_URL");
    const char *const servers[] = {url ? url : "redis://127.0.0.1:6379", NULL};
    struct lock_request request = {.name = "report", .wait_ms = 5000};
    struct lock_client *client = NULL;
    struct lock_handle *hold = NULL;
    enum lock_result result = lock_open(&(struct lock_options){.servers = servers}, &client);
    if (result == LOCK_OK)
        result = lock_acquire(client, &request, &hold);
    if (result == LOCK_OK) {
        printf("held, fence %llu\n", (unsigned long long)lock_fence(hold));
        result = lock_release(hold); /* LOCK_LOST: the work may have been done twice */
    }
    if (result != LOCK_OK)
        fprintf(stderr, "%s: %s\n", lock_result_name(result), lock_error());
    lock_free(&hold);
    lock_close(&client);
    return result == LOCK_OK ? 0 : 1;
}

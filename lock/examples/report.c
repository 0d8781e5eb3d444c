/* Does work that only one process may do at a time, and shows its fence to the guarded resource. */
#include <stdio.h>
#include <stdlib.h>

#include <seclock.h>

int main(void)
{
    const char *url = getenv("SECKILL_REDIS_URL");
    const char *const servers[] = {url ? url : "redis://127.0.0.1:6379", NULL};
    struct seclock_options options = SECLOCK_OPTIONS(.servers = servers);
    struct seclock_request request = SECLOCK_REQUEST(.name = "report", .wait_ms = 5000);
    struct seclock_client *client = NULL;
    struct seclock_handle *hold = NULL;
    enum seclock_result result = seclock_open(&options, &client);
    if (result == SECLOCK_OK)
        result = seclock_acquire(client, &request, &hold);
    if (result == SECLOCK_OK) {
        printf("held, fence %llu\n", (unsigned long long)seclock_fence(hold));
        result = seclock_release(hold); /* SECLOCK_LOST: another may have done the work too */
    }
    if (result != SECLOCK_OK)
        fprintf(stderr, "%s: %s\n", seclock_result_name(result), seclock_error());
    seclock_free(&hold);
    seclock_close(&client);
    return result == SECLOCK_OK ? 0 : 1;
}

/* A program with functions of its own that are called as an older library's were, for
 * test_lock_library.py. */
#include <stdio.h>
#include <string.h>

#include <seclock.h>

/* Names that functions inside the library have, or had. */
int lock_open(void);
int lock_free(void);
int lock_set_error(void);
int watchdog_open(void);

int lock_open(void)
{
    return 1;
}

int lock_free(void)
{
    return 2;
}

int lock_set_error(void)
{
    return 3;
}

int watchdog_open(void)
{
    return 4;
}

/* As compiled with the header of a later release, which has appended a field. */
struct later {
    struct seclock_request request;
    long field;
};

static enum seclock_result acquire_later(struct seclock_client *client, long field)
{
    struct seclock_handle *handle;
    struct later later = {.request = SECLOCK_REQUEST(.name = "embedded"), .field = field};
    later.request.size = sizeof later;
    enum seclock_result result = seclock_acquire(client, &later.request, &handle);
    seclock_free(&handle);
    return result;
}

static enum seclock_result acquire_without_size(struct seclock_client *client)
{
    struct seclock_handle *handle;
    struct seclock_request request = {.name = "embedded"};
    return seclock_acquire(client, &request, &handle);
}

/* A status as long as a later release has it: the library leaves what it does not know at 0. */
static int status_tail(struct seclock_client *client)
{
    struct {
        struct seclock_status status;
        char tail[16];
    } later;
    memset(&later, 0x55, sizeof later);
    later.status.size = sizeof later;
    enum seclock_result result =
        seclock_status(client, SECLOCK_KIND_SIMPLE, "embedded", &later.status);
    for (size_t i = 0; i < sizeof later.tail; i++)
        if (later.tail[i] != 0)
            return -1;
    return later.status.size == sizeof later ? (int)result : -1;
}

int main(int argc, char **argv)
{
    const char *const servers[] = {argc > 1 ? argv[1] : "redis://127.0.0.1", NULL};
    struct seclock_client *client = NULL;
    struct seclock_handle *handle = NULL;
    enum seclock_result opened = seclock_open(&SECLOCK_OPTIONS(.servers = servers), &client);
    enum seclock_result result =
        seclock_acquire(client, &SECLOCK_REQUEST(.name = "embedded"), &handle);
    printf("own %d %d %d %d\n", lock_open(), lock_free(), lock_set_error(), watchdog_open());
    printf("library %s %s %s\n", seclock_result_name(opened), seclock_result_name(result),
           seclock_result_name(seclock_release(handle)));
    seclock_free(&handle);
    printf("later %s %s\n", seclock_result_name(acquire_later(client, 0)),
           seclock_result_name(acquire_later(client, 1)));
    printf("unsized %s: %s\n", seclock_result_name(acquire_without_size(client)), seclock_error());
    printf("status %d\n", status_tail(client));
    seclock_close(&client);
    return 0;
}

/* A lock that is one string, the token of its holder: SET NX PX with a fence, compare and
 * delete. */
#include "lock/redis_string.h"

enum seclock_result redis_string_acquire(struct redis_server *server, struct seclock_handle *handle,
                                         const char *field)
{
    struct script_call call;
    script_begin(&call, SCRIPT_lock_acquire);
    redis_kind_key(server, &call, handle->name, field);
    redis_kind_key(server, &call, handle->name, "fence");
    script_text(&call, handle->request);
    script_int(&call, handle->lease_ms);
    handle->token = handle->request;
    return redis_kind_acquire(server, handle, &call);
}

enum { REPEAT_MS_MAX = 5000 }; /* in which a release that was not answered is sent again */

enum seclock_result redis_string_release(struct redis_server *server, struct seclock_handle *handle,
                                         const char *field, const char *message)
{
    struct script_call call;
    script_begin(&call, SCRIPT_lock_release);
    redis_kind_key(server, &call, handle->name, field);
    redis_kind_key(server, &call, handle->name, "released");
    script_text(&call, handle->request);
    script_text(&call, message);
    script_text(&call, seclock_remaining_ms(handle) > REPEAT_MS_MAX ? "1" : "0");
    return message[0] ? redis_kind_tell(server, &call, SECLOCK_LOST)
                      : redis_kind_run(server, &call, SECLOCK_LOST);
}

void redis_string_renewal(const struct redis_server *server, const struct seclock_handle *handle,
                          const char *field, struct script_call *call_out)
{
    script_begin(call_out, SCRIPT_lock_renew);
    redis_kind_key(server, call_out, handle->name, field);
    redis_kind_key(server, call_out, handle->name, "fence");
    script_text(call_out, handle->request);
    script_int(call_out, handle->lease_ms);
}

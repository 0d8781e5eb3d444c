/* A re-entrant lock that is one hash: its owner, its fence, a field for each hold. */
#include "lock/redis_hash.h"

void redis_hash_renewal(const struct redis_server *server, const struct seclock_handle *handle,
                        const char *field, struct script_call *call_out)
{
    script_begin(call_out, SCRIPT_lock_reenter_renew);
    redis_kind_key(server, call_out, handle->name, field);
    script_text(call_out, handle->request);
    script_int(call_out, handle->lease_ms);
}

enum seclock_result redis_hash_release(struct redis_server *server, struct seclock_handle *handle,
                                       const char *field, const char *mark, const char *message)
{
    struct script_call call;
    script_begin(&call, SCRIPT_lock_reenter_release);
    redis_kind_key(server, &call, handle->name, field);
    redis_kind_key(server, &call, handle->name, "released");
    if (mark)
        redis_kind_key(server, &call, handle->name, mark);
    script_text(&call, handle->request);
    script_text(&call, message);
    return redis_kind_tell(server, &call, SECLOCK_LOST);
}

/* Redis Cluster is not supported yet: no client of one can be opened. */
#include "lua/cluster_hooks.h"

#include <stddef.h>

static struct cluster *open_none(struct redis *front, const struct url *url, int timeout_ms)
{
    (void)front, (void)url, (void)timeout_ms;
    return NULL;
}

const struct cluster_hooks cluster_hooks = {.open = open_none};

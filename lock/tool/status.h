/* Private to seclock: who holds a lock, and breaking it. */
#ifndef LOCK_TOOL_STATUS_H
#define LOCK_TOOL_STATUS_H

#include "lock/tool/options.h"

/* Runs the command status or break. */
enum exit_code status_or_break(const struct settings *settings, struct seclock_client *client);

/* Says why a call failed, and of a lock that is busy for whom and for how long; `client` may be
 * NULL. The exit code for it. */
enum exit_code failed(const struct settings *settings, struct seclock_client *client,
                      enum seclock_result result);

#endif

/* One connection that holds many subscriptions: asks without waiting, reads what has come. */
#ifndef LUA_SUBSCRIBER_H
#define LUA_SUBSCRIBER_H

#include "lua/redis.h"

enum subscriber_event {
    SUBSCRIBER_NOTHING, /* no further reply has been read */
    SUBSCRIBER_READY,   /* Redis confirms one more SUBSCRIBE */
    SUBSCRIBER_MESSAGE, /* a message came on a channel */
    SUBSCRIBER_OTHER,   /* any other reply, such as a confirmed UNSUBSCRIBE */
};

/* Sends SUBSCRIBE for one channel, or UNSUBSCRIBE, which may leave up to 200 ms late. False: there
 * is no connection, or it was lost, or memory ran out. */
bool subscriber_ask(struct redis *redis, bool subscribe, const char *channel);

/* Returns the next event among what redis_fill has read. For SUBSCRIBER_MESSAGE writes the channel
 * and the message as NUL-terminated text, cut to their sizes; for the others writes nothing. */
enum subscriber_event subscriber_next(struct redis *redis, char *channel_out, size_t channel_size,
                                      char *message_out, size_t message_size);

#endif

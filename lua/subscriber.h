/* A connection that many threads subscribe with: asks without waiting, reads what has come. */
#ifndef LUA_SUBSCRIBER_H
#define LUA_SUBSCRIBER_H

#include "lua/redis.h"

enum subscriber_event {
    SUBSCRIBER_NOTHING, /* nothing has come that was not told yet */
    SUBSCRIBER_READY,   /* one more SUBSCRIBE is in force */
    SUBSCRIBER_MESSAGE, /* a message came on the channel */
    SUBSCRIBER_OTHER,   /* something of no interest */
};

/* Sends SUBSCRIBE for one channel, or UNSUBSCRIBE, which is in no hurry. False: the connection is
 * not there or is lost. */
bool subscriber_ask(struct redis *redis, bool subscribe, const char *channel);

/* Tells the next thing among what redis_fill has read: for SUBSCRIBER_MESSAGE the channel and the
 * message, cut to their sizes, as NUL-terminated text. */
enum subscriber_event subscriber_next(struct redis *redis, char *channel_out, size_t channel_size,
                                      char *message_out, size_t message_size);

#endif

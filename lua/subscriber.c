/* A connection that many threads subscribe with: asks without waiting, reads what has come. */
#include "lua/subscriber.h"

#include <assert.h>
#include <hiredis/hiredis.h>
#include <stdio.h>
#include <strings.h>

/* An UNSUBSCRIBE is sent lazily because a late one costs no more than a message that is dropped,
 * while a late SUBSCRIBE misses messages. */
bool subscriber_ask(struct redis *redis, bool subscribe, const char *channel)
{
    const char *argv[] = {subscribe ? "SUBSCRIBE" : "UNSUBSCRIBE", channel};
    return redis_connected(redis) && redis_append(redis, 2, argv, NULL) &&
           (subscribe ? redis_flush(redis) : redis_flush_lazily(redis));
}

/* Redis confirms a SUBSCRIBE in the same stream as it delivers messages, so a confirmation stands
 * before the first message that the subscription delivers. Confirmed UNSUBSCRIBEs are of no
 * interest. */
static enum subscriber_event classify(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 3 ||
        reply->element[0]->type != REDIS_REPLY_STRING)
        return SUBSCRIBER_OTHER;
    if (strcasecmp(reply->element[0]->str, "subscribe") == 0)
        return SUBSCRIBER_READY;
    bool texts = reply->element[1]->type == REDIS_REPLY_STRING &&
                 reply->element[2]->type == REDIS_REPLY_STRING;
    return texts && strcasecmp(reply->element[0]->str, "message") == 0 ? SUBSCRIBER_MESSAGE
                                                                       : SUBSCRIBER_OTHER;
}

enum subscriber_event subscriber_next(struct redis *redis, char *channel_out, size_t channel_size,
                                      char *message_out, size_t message_size)
{
    assert(channel_size > 0 && message_size > 0);
    redisReply *reply = redis_parsed(redis);
    if (!reply)
        return SUBSCRIBER_NOTHING;
    enum subscriber_event event = classify(reply);
    if (event == SUBSCRIBER_MESSAGE) {
        snprintf(channel_out, channel_size, "%s", reply->element[1]->str);
        snprintf(message_out, message_size, "%s", reply->element[2]->str);
    }
    freeReplyObject(reply);
    return event;
}

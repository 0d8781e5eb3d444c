-- Tells the waiters on a channel. From Redis 7 on they subscribe to it as a sharded channel
-- (lock/redis/waiter.c), so the node that has the lock's slot serves them alone. Where Redis
-- refuses that, they subscribe to a plain channel: it does the same to both. An account may be
-- allowed neither: then waiters find out by themselves, and the rest of the script goes on. KEYS,
-- ARGV: none of its own. It uses the locals `channel` and `message`: how many waiters of a process
-- wake, or '*' for all. Returns nothing.
local told = redis.REDIS_VERSION_NUM and redis.pcall('SPUBLISH', channel, message)
if type(told) ~= 'number' then
  redis.pcall('PUBLISH', channel, message)
end

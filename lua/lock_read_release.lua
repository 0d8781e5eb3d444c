-- KEYS: 1 the writer, 2 the read holds, 3 their number by owner (all as in lock_read), 4 where this
-- request is kept when released.
-- ARGV: 1 owner, 2 request.
-- Returns {1} when given back, now or by the same call before; {0} when the hold is not there.
-- Atomic because the release of the last reader must wake the waiters, on the channel named like
-- the writer.
local hold = ARGV[1] .. '/' .. ARGV[2]
local ends = redis.call('ZSCORE', KEYS[2], hold)
if not ends then
  return {redis.call('GET', KEYS[4]) == ARGV[2] and 1 or 0}
end
redis.call('ZREM', KEYS[2], hold)
if redis.call('HINCRBY', KEYS[3], ARGV[1], -1) <= 0 then
  redis.call('HDEL', KEYS[3], ARGV[1])
end
if redis.call('ZCARD', KEYS[2]) == 0 then
  redis.call('PUBLISH', KEYS[1], '*')
end
local time = redis.call('TIME')
if tonumber(ends) <= time[1] * 1000 + math.floor(time[2] / 1000) then
  return {0}
end
redis.call('SET', KEYS[4], ARGV[2], 'PX', 60000)
return {1}

-- KEYS: 1 the writer (as in lock_reenter), 2 the read holds (OWNER/REQUEST by server time in ms
-- when they end), 3 their number by owner, 4 the mark of a waiting writer, 5 the fence's key.
-- ARGV: 1 owner, 2 request, 3 lease in ms.
-- Returns {1, fence, read holds} when acquired, {0, ms left} when another owner writes or waits to.
-- Atomic because who reads must be known to whoever writes next. Read holds that have ended are
-- dropped, a bounded number at a time, so that none outlives its own lease. The fence is the last
-- writer's. Who reads or writes already does not wait for a waiting writer.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, hold in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 100)) do
  local owner = string.match(hold, '^[^/]*')
  redis.call('ZREM', KEYS[2], hold)
  if redis.call('HINCRBY', KEYS[3], owner, -1) <= 0 then
    redis.call('HDEL', KEYS[3], owner)
  end
end
local writer = redis.call('HGET', KEYS[1], 'o')
if writer and writer ~= ARGV[1] then
  return {0, redis.call('PTTL', KEYS[1])}
end
if not writer and redis.call('HEXISTS', KEYS[3], ARGV[1]) == 0 then
  local marked = redis.call('PTTL', KEYS[4])
  if marked > 0 then
    return {0, marked}
  end
end
if redis.call('ZADD', KEYS[2], now + ARGV[3], ARGV[1] .. '/' .. ARGV[2]) == 1 then
  redis.call('HINCRBY', KEYS[3], ARGV[1], 1)
end
if redis.call('PTTL', KEYS[2]) < tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[2], ARGV[3])
end
if redis.call('PTTL', KEYS[3]) < tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[3], ARGV[3])
end
local fence = tonumber(redis.call('GET', KEYS[5]) or '0')
if fence == 0 then
  fence = time[1] * 1000000 + time[2]
  redis.call('SET', KEYS[5], string.format('%.0f', fence), 'EX', 604800)
end
return {1, fence, tonumber(redis.call('HGET', KEYS[3], ARGV[1]))}

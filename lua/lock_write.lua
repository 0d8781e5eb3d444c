-- KEYS: 1 the writer, 2 the read holds, 3 their number by owner, 4 the mark of a waiting writer,
-- 5 the fence's key (all as in lock_read).
-- ARGV: 1 owner, 2 request, 3 lease in ms, 4 ms for which the mark of a waiting writer lasts, or 0.
-- Returns {1, fence, holds} when acquired, {0, ms left} when others read or write, {2} when the
-- owner itself reads: it would wait for itself.
-- Atomic because writer, readers and fence must be seen together. Read holds that have ended are
-- dropped, a bounded number at a time. A waiting writer keeps new readers out.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, hold in ipairs(redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 100)) do
  local owner = string.match(hold, '^[^/]*')
  redis.call('ZREM', KEYS[2], hold)
  if redis.call('HINCRBY', KEYS[3], owner, -1) <= 0 then
    redis.call('HDEL', KEYS[3], owner)
  end
end
local lock = redis.call('HMGET', KEYS[1], 'o', 'f')
local fence = tonumber(lock[2] or '0')
if lock[1] ~= ARGV[1] then
  if redis.call('HEXISTS', KEYS[3], ARGV[1]) == 1 then
    return {2}
  end
  local last = redis.call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES')
  if lock[1] or last[1] then
    if ARGV[4] ~= '0' then
      redis.call('SET', KEYS[4], ARGV[2], 'PX', ARGV[4])
    end
    return {0, lock[1] and redis.call('PTTL', KEYS[1]) or last[2] - now}
  end
  local stored = tonumber(redis.call('GET', KEYS[5]) or '0')
  fence = math.max(stored + 1, time[1] * 1000000 + time[2])
  redis.call('SET', KEYS[5], string.format('%.0f', fence), 'EX', 604800)
end
redis.call('HSET', KEYS[1], 'o', ARGV[1], 'f', string.format('%.0f', fence), 'h:' .. ARGV[2], 1)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
if redis.call('GET', KEYS[4]) == ARGV[2] then
  redis.call('DEL', KEYS[4])
end
return {1, fence, redis.call('HLEN', KEYS[1]) - 2}

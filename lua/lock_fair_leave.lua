-- KEYS: 1 the lock (as in lock_reenter), 2 the queue, 3 the signs of life (both as in lock_fair),
-- 4 where the last released request is kept. ARGV: 1 request.
-- Returns {1} when its hold or its place was given back, now or by the same call before; {0} when
-- it had neither (any more).
-- Atomic because the next in the queue must be told if and only if the lock is free for it.
local gone = redis.call('HDEL', KEYS[1], 'h:' .. ARGV[1]) == 1
if gone and redis.call('HLEN', KEYS[1]) == 2 then
  redis.call('DEL', KEYS[1])
end
if redis.call('ZREM', KEYS[3], ARGV[1]) == 1 then
  redis.call('LREM', KEYS[2], 1, ARGV[1])
  gone = true
end
if gone then
  redis.call('SET', KEYS[4], ARGV[1], 'PX', 60000)
end
if redis.call('EXISTS', KEYS[1]) == 0 then
  local time = redis.call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  for _ = 1, 64 do
    local head = redis.call('LINDEX', KEYS[2], 0)
    if not head then
      break
    end
    if tonumber(redis.call('ZSCORE', KEYS[3], head) or '0') > now then
      redis.call('PUBLISH', KEYS[1] .. ':' .. head, '1')
      break
    end
    redis.call('LPOP', KEYS[2])
    redis.call('ZREM', KEYS[3], head)
  end
end
if gone or redis.call('GET', KEYS[4]) == ARGV[1] then
  return {1}
end
return {0}

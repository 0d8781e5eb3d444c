-- KEYS: 1 the permits taken (as in lock_permits), 2 where this request is kept when released.
-- ARGV: 1 request.
-- Returns {1} when the request's permits are given back, now or by the same call before; {0} when
-- they had ended.
-- Atomic because as many waiters must be woken as permits came back.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local back = 0
local ends = redis.call('ZSCORE', KEYS[1], ARGV[1] .. '#1')
while redis.call('ZREM', KEYS[1], ARGV[1] .. '#' .. (back + 1)) == 1 do
  back = back + 1
end
if back == 0 then
  return {redis.call('GET', KEYS[2]) == ARGV[1] and 1 or 0}
end
redis.call('PUBLISH', KEYS[1], string.format('%d', back))
if tonumber(ends) <= now then
  return {0}
end
redis.call('SET', KEYS[2], ARGV[1], 'PX', '60000')
return {1}

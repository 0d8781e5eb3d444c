-- KEYS: 1 the permits taken (as in lock_permits), 2 where this request is kept when released.
-- ARGV: 1 request.
-- Returns {1} when the request's permits are given back, now or by the same call before; {0} when
-- they had ended: then the request is kept as well.
-- Atomic because as many waiters must be woken as permits came back.
local call = redis.call
local released_key, request = KEYS[2], ARGV[1]
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local back = 0
local ends = call('ZSCORE', KEYS[1], request .. '#1')
while call('ZREM', KEYS[1], request .. '#' .. (back + 1)) == 1 do
  back = back + 1
end
if back == 0 then
  if call('GET', released_key) == request then
    return {1}
  end
  -- include: keep_unheld.lua
  return {0}
end
local channel, message = KEYS[1], string.format('%d', back)
-- include: tell.lua
if tonumber(ends) <= now then
  return {0}
end
call('SET', released_key, request, 'PX', '60000')
return {1}

-- KEYS: 1 the writer, 2 the read holds, 3 their number by owner (all as in lock_read), 4 where this
-- request is kept when released.
-- ARGV: 1 owner, 2 request.
-- Returns {1} when given back, now or by the same call before; {0} when the hold is not there: then
-- the request is kept as well.
-- Atomic because the release of the last reader must wake the waiters, on the channel named like
-- the writer.
local call = redis.call
local released_key, request = KEYS[4], ARGV[2]
local hold = ARGV[1] .. '/' .. request
local ends = call('ZSCORE', KEYS[2], hold)
if not ends then
  if call('GET', released_key) == request then
    return {1}
  end
  -- include: keep_unheld.lua
  return {0}
end
call('ZREM', KEYS[2], hold)
if call('HINCRBY', KEYS[3], ARGV[1], -1) <= 0 then
  call('HDEL', KEYS[3], ARGV[1])
end
if call('ZCARD', KEYS[2]) == 0 then
  local channel, message = KEYS[1], '*'
  -- include: tell.lua
end
local time = call('TIME')
if tonumber(ends) <= time[1] * 1000 + math.floor(time[2] / 1000) then
  return {0}
end
call('SET', released_key, request, 'PX', 60000)
return {1}

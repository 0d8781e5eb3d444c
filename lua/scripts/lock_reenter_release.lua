-- KEYS: 1 the lock (as in lock_reenter), 2 where this request is kept when released, 3 (or none)
-- the mark of a waiting writer, which is deleted with the lock so that readers have their turn.
-- ARGV: 1 request, 2 message for the waiters on the channel named like the lock, '' for none.
-- Returns {1, holds left} when given back, now or by the same call before; {0} when the request's
-- hold is not there (any more): then the request is kept as well.
-- Atomic because the release of the last hold must free the lock in the same moment.
local call = redis.call
local released_key, request = KEYS[2], ARGV[1]
local hold = 'h:' .. request
if call('HEXISTS', KEYS[1], hold) == 0 then
  if call('GET', released_key) == request then
    return {1, math.max(call('HLEN', KEYS[1]) - 2, 0)}
  end
  -- include: keep_unheld.lua
  return 0
end
local left = call('HLEN', KEYS[1]) - 3
if left > 0 then
  call('HDEL', KEYS[1], hold)
else
  call('DEL', KEYS[1])
end
call('SET', released_key, request, 'PX', '60000') -- after a write for which a full Redis has room
if left > 0 then
  return {1, left}
end
if KEYS[3] then
  call('DEL', KEYS[3])
end
if ARGV[2] ~= '' then
  local channel, message = KEYS[1], ARGV[2]
  -- include: tell.lua
end
return '1 0'

-- KEYS: 1 the lock (as in lock_reenter), 2 the queue, 3 until when each waiter counts as alive
-- (both as in lock_fair), 4 where this request is kept when released.
-- ARGV: 1 request.
-- Returns 1 when its hold or its place was given back, now or by the same call before; 0 when it
-- had neither (any more): then the request is kept as well.
-- Atomic because the next in the queue must be told if and only if the lock is free for it.
local call = redis.call
local released_key, request = KEYS[4], ARGV[1]
local hold = 'h:' .. request
local gone = call('HEXISTS', KEYS[1], hold) == 1
local free
if gone then -- a holder has left the queue before
  free = call('HLEN', KEYS[1]) == 3
  if free then
    call('DEL', KEYS[1])
  else
    call('HDEL', KEYS[1], hold)
  end
else
  free = call('EXISTS', KEYS[1]) == 0
  gone = call('ZREM', KEYS[3], request) == 1
  if gone then
    call('LREM', KEYS[2], 1, request)
  end
end
if gone then
  call('SET', released_key, request, 'PX', '60000')
elseif call('GET', released_key) == request then
  gone = true
else
  -- include: keep_unheld.lua
end
local head = free and call('LINDEX', KEYS[2], 0)
if head then
  local time = call('TIME')
  local now = time[1] * 1000 + math.floor(time[2] / 1000)
  for _ = 1, 64 do
    if tonumber(call('ZSCORE', KEYS[3], head) or '0') > now then
      local channel, message = KEYS[1] .. ':' .. head, '1'
      -- include: tell.lua
      break
    end
    call('LPOP', KEYS[2])
    call('ZREM', KEYS[3], head)
    head = call('LINDEX', KEYS[2], 0)
    if not head then
      break
    end
  end
end
return gone and 1 or 0

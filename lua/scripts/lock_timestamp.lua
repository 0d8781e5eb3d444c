-- KEYS: 1 the lock ("expiry in ms:token"), 2 where this token is kept when released.
-- ARGV: 1 token, 2 lease in ms from now, or 0 to release.
-- Returns 1 when renewed or released; 0 when the token does not hold the lock (any more): then a
-- release keeps the token as well.
-- Atomic because only the holder may change the lock. It is for a full Redis, which refuses every
-- command of a transaction. DEL comes first: a full Redis also refuses a script whose first write
-- needs memory.
local call = redis.call
local released_key, request = KEYS[2], ARGV[1]
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local ends, token = string.match(call('GET', KEYS[1]) or '', '^(%d+):(.*)$')
if token ~= request or tonumber(ends) <= now then
  if ARGV[2] == '0' then
    -- include: keep_unheld.lua
  end
  return 0
end
call('DEL', KEYS[1])
if ARGV[2] == '0' then
  call('SET', released_key, request, 'PX', '60000')
  local channel, message = KEYS[1], '1'
  -- include: tell.lua
else
  call('SET', KEYS[1], string.format('%d:%s', now + ARGV[2], request), 'PX', ARGV[2])
end
return 1

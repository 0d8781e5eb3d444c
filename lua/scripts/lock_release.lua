-- KEYS: 1 the lock's key, 2 (or none) where this token is kept when released.
-- ARGV: 1 token, 2 message for the waiters on the channel named like the lock's key, or none, 3 '1'
-- when a repeat of this call would certainly come before the end of the lease.
-- Returns 1 when released, now or by the same call before; 0 when the token does not hold the lock
-- (any more): then the token is kept as well.
-- Atomic because between a separate compare and delete the lock could pass to another token.
local call = redis.call
if call('GET', KEYS[1]) ~= ARGV[1] then
  local released_key, request = KEYS[2], ARGV[1]
  if released_key then
    if call('GET', released_key) == request then
      return 1
    end
    -- include: keep_unheld.lua
  end
  return 0
end
if KEYS[2] and ARGV[3] == '1' then
  call('RENAME', KEYS[1], KEYS[2])
else
  call('DEL', KEYS[1])
  if KEYS[2] then
    call('SET', KEYS[2], ARGV[1], 'PX', '60000')
  end
end
if ARGV[2] and ARGV[2] ~= '' then
  local channel, message = KEYS[1], ARGV[2]
  -- include: tell.lua
end
return 1

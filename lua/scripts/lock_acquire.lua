-- KEYS: 1 the lock's key, 2 the fence's key, 3 (or none) where lock_release keeps the token.
-- ARGV: 1 token, 2 lease in ms.
-- Returns {1, fence} when acquired, {0, ms left} when another token holds it, {4} when the token
-- was released before.
-- Atomic because the lock and its fence must never be seen one without the other.
-- A repeat with the token that holds the lock gives the first answer again (a re-sent request).
local call = redis.call
if KEYS[3] then
  local released_key, request = KEYS[3], ARGV[1]
  -- include: refuse_released.lua
end
if not call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  if call('GET', KEYS[1]) ~= ARGV[1] then
    return {0, call('PTTL', KEYS[1])}
  end
  call('PEXPIRE', KEYS[1], ARGV[2])
  local stored = call('GET', KEYS[2])
  if stored then
    return '1 ' .. stored
  end
end
local time = call('TIME')
local fence, fence_key = nil, KEYS[2]
-- include: fence_next.lua
return '1 ' .. fence

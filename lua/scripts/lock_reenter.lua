-- KEYS: 1 the lock (hash: o owner, f fence, one field h:REQUEST for each hold), 2 the fence's key,
-- 3 where lock_reenter_release keeps the request.
-- ARGV: 1 owner, 2 request, 3 lease in ms.
-- Returns {1, fence, holds} when acquired, {0, ms left} when another owner has it, {4} when
-- the request was released before.
-- Atomic because owner, holds and fence must never be seen one without the other. A repeated
-- request is one hold; a further hold keeps the fence and never shortens the lease.
local call = redis.call
local released_key, request = KEYS[3], ARGV[2]
-- include: refuse_released.lua
local lock = call('HMGET', KEYS[1], 'o', 'f')
if not lock[1] then
  local time = call('TIME')
  local fence, fence_key = nil, KEYS[2]
  -- include: fence_next.lua
  call('HSET', KEYS[1], 'o', ARGV[1], 'f', fence, 'h:' .. ARGV[2], '1')
  call('PEXPIRE', KEYS[1], ARGV[3])
  return '1 ' .. fence .. ' 1'
end
if lock[1] ~= ARGV[1] then
  return {0, call('PTTL', KEYS[1])}
end
call('HSET', KEYS[1], 'h:' .. ARGV[2], '1')
if call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
  call('PEXPIRE', KEYS[1], ARGV[3])
end
return {1, tonumber(lock[2]), call('HLEN', KEYS[1]) - 2}

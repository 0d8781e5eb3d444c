-- KEYS: 1 the segment's lock, 2 the segment, 3 the lock's fence.
-- ARGV: 1 token, 2 lease in ms, 3 round, 4 units wanted.
-- Returns {0, ms left} when another token holds the lock; {1, fence} when the segment is locked,
-- and missing, of another round, or its last round was never settled; {1, fence, units taken, fence
-- of the last settled round, units left} when it is locked and was settled.
-- Atomic because the check, the decrement and the dirty mark must stand or fall together, under the
-- lock and its fence.
-- A repeat with the token that holds the lock gets the first fence again. A segment that the first
-- call marked is not settled, so the repeat takes nothing twice.
local call, token = redis.call, ARGV[1]
local fence, fence_key = nil, KEYS[3]
if not call('SET', KEYS[1], token, 'NX', 'PX', ARGV[2]) then
  if call('GET', KEYS[1]) ~= token then
    return '0 ' .. call('PTTL', KEYS[1])
  end
  call('PEXPIRE', KEYS[1], ARGV[2])
  fence = call('GET', fence_key)
end
if not fence then
  local time = call('TIME')
  -- include: fence_next.lua
end
-- A key of another type counts as a missing segment: an error would hide that the lock is held.
local segment = redis.pcall('HMGET', KEYS[2], 'available', 'round', 'open', 'settled')
local available = tonumber(segment[1] or '')
if not (available and segment[4]) or segment[2] ~= ARGV[3] or segment[3] ~= '' or available < 0 then
  return '1 ' .. fence
end
local taken = math.min(available, ARGV[4])
if taken > 0 then
  call('HSET', KEYS[2], 'available', available - taken, 'open', token)
end
return '1 ' .. fence .. ' ' .. taken .. ' ' .. segment[4] .. ' ' .. available - taken

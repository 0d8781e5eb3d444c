-- KEYS: 1 the segment's lock, 2 the segment, 3 the lock's fence; further calls' keys may follow.
-- ARGV: 1 token, 2 lease in ms, 3 round, 4 units wanted; as many for each further call.
-- Returns {0, ms left} when another token holds the lock; {1, fence} when the segment is locked,
-- and missing, of another round, or its last round was never settled; {1, fence, units taken, fence
-- of the last settled round, units left} when it is locked and was settled.
-- Atomic because the check, the decrement and the dirty mark must stand or fall together, under the
-- lock and its fence.
-- A repeat with the token that holds the lock gets the first fence again. A segment that the first
-- call marked is not settled, so the repeat takes nothing twice.
local call = redis.call
local keys_each = 3
local function turn(key, arg)
  local lock, segment_key, fence_key = KEYS[key + 1], KEYS[key + 2], KEYS[key + 3]
  local token, lease = ARGV[arg + 1], ARGV[arg + 2]
  local fence
  if not call('SET', lock, token, 'NX', 'PX', lease) then
    if call('GET', lock) ~= token then
      return '0 ' .. call('PTTL', lock)
    end
    call('PEXPIRE', lock, lease)
    fence = call('GET', fence_key)
  end
  if not fence then
    local time = call('TIME')
    -- include: fence_next.lua
  end
  -- A key of another type counts as a missing segment: an error would hide that the lock is held.
  local segment = redis.pcall('HMGET', segment_key, 'available', 'round', 'open', 'settled')
  local available, settled = tonumber(segment[1] or ''), segment[4]
  if not (available and settled) or available < 0 or segment[2] ~= ARGV[arg + 3]
    or segment[3] ~= '' then
    return '1 ' .. fence
  end
  local taken = math.min(available, ARGV[arg + 4])
  if taken > 0 then
    call('HSET', segment_key, 'available', available - taken, 'open', token)
  end
  return '1 ' .. fence .. ' ' .. taken .. ' ' .. settled .. ' ' .. available - taken
end
-- include: joined.lua

-- KEYS: 1 the segment's lock, 2 the segment; further calls' keys may follow.
-- ARGV: 1 token, 2 fence that the ledger now holds, 3 units that come back (taken and not sold, or
-- returned); as many for each further call.
-- Returns 1 when settled and released; 0 when the token does not hold the lock or did not open the
-- round.
-- Atomic because the returned units and the end of the round must become visible together, and the
-- lock must stay held until then: its next holder would find the round open and recover in vain.
-- The lock goes first: a full Redis refuses a script whose first write needs memory.
local call = redis.call
local keys_each = 2
local function turn(key, arg)
  local lock, segment, token = KEYS[key + 1], KEYS[key + 2], ARGV[arg + 1]
  if call('GET', lock) ~= token or call('HGET', segment, 'open') ~= token then
    return 0
  end
  call('DEL', lock)
  call('HSET', segment, 'open', '', 'settled', ARGV[arg + 2])
  if ARGV[arg + 3] ~= '0' then
    call('HINCRBY', segment, 'available', ARGV[arg + 3])
  end
  return 1
end
-- include: joined.lua

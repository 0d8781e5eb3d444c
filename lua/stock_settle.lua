-- KEYS: 1 the segment's lock, 2 the segment. ARGV: 1 token, 2 fence that the ledger now holds,
-- 3 units that come back (taken and not sold, or returned).
-- Returns {1, units left} when settled and released; {0} when the token does not
-- hold the lock or did not open the round.
-- Atomic because the returned units and the end of the round must become visible together, and the
-- lock must stay held until then: its next holder would find the round open and recover in vain.
-- The lock goes first: a full Redis refuses a script whose first write needs memory.
if redis.call('GET', KEYS[1]) ~= ARGV[1] or redis.call('HGET', KEYS[2], 'open') ~= ARGV[1] then
  return {0}
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[2], 'open', '', 'settled', ARGV[2])
local left = redis.call('HINCRBY', KEYS[2], 'available', ARGV[3])
return {1, left}

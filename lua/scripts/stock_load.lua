-- KEYS: 1 the segment's lock, 2 the segment. ARGV: 1 token, 2 units available, 3 round, 4 fence.
-- Returns {1} when the segment says what the ledger says and is released; {0} when the token
-- does not hold the lock.
-- Atomic because no process may see a segment half loaded, nor lock it before it is loaded.
-- The lock goes first: a full Redis refuses a script whose first write needs memory.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {0}
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[2], 'available', ARGV[2], 'round', ARGV[3], 'open', '', 'settled', ARGV[4])
return {1}

-- KEYS: 1 the segment. ARGV: 1 round and 2 settled fence at which the units were taken, 3 units
-- that come back, 4 '', or a dirty mark for when the ledger refused the units.
-- Returns {1} when the units are back, or the segment is marked dirty; {0} when a recovery has
-- set the segment from the ledger since and so counted the units.
-- A holder may have the segment open meanwhile. If it settles, it adds to what is here; if it
-- recovers, it replaces it. A dirty mark takes the place of its own, so that it cannot settle.
-- Atomic because units must come back only once, here or by a recovery. PERSIST changes nothing and
-- needs no memory: a full Redis refuses a script whose first write does.
local segment = redis.call('HMGET', KEYS[1], 'round', 'settled')
if segment[1] ~= ARGV[1] or segment[2] ~= ARGV[2] then
  return {0}
end
redis.call('PERSIST', KEYS[1])
if ARGV[4] ~= '' then
  redis.call('HSET', KEYS[1], 'open', ARGV[4])
else
  redis.call('HINCRBY', KEYS[1], 'available', ARGV[3])
end
return {1}

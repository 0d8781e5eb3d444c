-- KEYS: 1 the segment's lock, 2 the segment. ARGV: 1 token.
-- Returns {1, fence of the last settled round, units left} when the segment is marked open, as by a
-- take of no units; {2} when it is missing or marked already; {0} when the token does not hold the
-- lock.
-- Atomic because only the lock's holder may mark a segment, and because the mark of a holder that
-- died must stay.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {0}
end
local segment = redis.call('HMGET', KEYS[2], 'available', 'open', 'settled')
local available = tonumber(segment[1])
if not (available and segment[3]) or segment[2] ~= '' then
  return {2}
end
redis.call('HSET', KEYS[2], 'open', ARGV[1])
return {1, tonumber(segment[3]), available}

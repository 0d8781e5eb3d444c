-- KEYS: 1 the segment's lock, 2 the segment. ARGV: 1 token.
-- Returns {1} when the segment is gone and released; {0} when the token does not hold
-- the lock.
-- Atomic because only the lock's holder may remove a segment, before another process locks it.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {0}
end
redis.call('DEL', KEYS[2], KEYS[1])
return {1}

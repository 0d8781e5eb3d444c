-- KEYS: 1 the segment's lock, 2 the segment, 3 its fence. ARGV: 1 token.
-- Returns {1} when nothing of the segment is left; {0} when the token does not hold the lock.
-- Atomic because only the lock's holder may remove a segment, before another process locks it.
-- Without the fence, the next one begins at the time of day, which is later.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {0}
end
redis.call('DEL', KEYS[1], KEYS[2], KEYS[3])
return {1}

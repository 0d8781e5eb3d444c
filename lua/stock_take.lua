-- KEYS: 1 the segment's lock, 2 the segment. ARGV: 1 token, 2 round, 3 units wanted.
-- Returns {1, units taken, fence of the last settled round, units left}; {0} when the token does
-- not hold the lock; {2} when the segment is missing, of another round, or its last round was never
-- settled.
-- Atomic because the check, the decrement and the dirty mark must stand or fall together.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {0}
end
local segment = redis.call('HMGET', KEYS[2], 'available', 'round', 'open', 'settled')
if not (segment[1] and segment[4]) or segment[2] ~= ARGV[2] or segment[3] ~= '' then
  return {2}
end
local available = tonumber(segment[1])
if not available or available < 0 then
  return {2}
end
local taken = math.min(available, tonumber(ARGV[3]))
if taken > 0 then
  redis.call('HSET', KEYS[2], 'available', available - taken, 'open', ARGV[1])
end
return {1, taken, tonumber(segment[4]), available - taken}

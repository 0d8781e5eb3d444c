-- KEYS: 1 the segment. ARGV: 1 round, 2 units wanted.
-- Returns {1, units taken, fence of the last settled round, units left}; {2} when the segment is
-- missing, of another round, or its last round was never settled.
-- Atomic because the check and the decrement must stand or fall together. No lock and no mark
-- says who took: units that a process took before it died are missing until the sale is reconciled.
local segment = redis.call('HMGET', KEYS[1], 'available', 'round', 'open', 'settled')
if not (segment[1] and segment[4]) or segment[2] ~= ARGV[1] or segment[3] ~= '' then
  return {2}
end
local available = tonumber(segment[1])
if not available or available < 0 then
  return {2}
end
local taken = math.min(available, tonumber(ARGV[2]))
if taken > 0 then
  redis.call('HSET', KEYS[1], 'available', available - taken)
end
return {1, taken, tonumber(segment[4]), available - taken}

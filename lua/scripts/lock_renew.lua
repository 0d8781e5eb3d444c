-- KEYS: 1 the lock's key, 2 (or none) the fence's key. ARGV: 1 token, 2 lease in ms from now.
-- Returns {1[, fence]} when renewed; when the token does not hold the lock (any more), {0, 1} if
-- another holds it, else {0, 0}.
-- Atomic because only the holder may extend the lease; the script never creates the lock again.
local holder = redis.call('GET', KEYS[1])
if holder ~= ARGV[1] then
  return {0, holder and 1 or 0}
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {1, KEYS[2] and tonumber(redis.call('GET', KEYS[2]) or '0')}

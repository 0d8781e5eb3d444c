-- KEYS: 1 the lock's key. ARGV: 1 token.
-- Returns {1} when released, {0} when the token does not hold the lock (any more).
-- Atomic because between a separate compare and delete the lock could pass to another token.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {0}
end
redis.call('DEL', KEYS[1])
return {1}

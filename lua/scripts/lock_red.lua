-- KEYS: 1 the lock's key. ARGV: 1 token, 2 lease in ms.
-- Returns {1} when acquired, {0, ms left} when another token holds it.
-- Atomic because a repeat with the token that holds the lock must give the first answer again, with
-- a full lease.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return {1}
end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then
  return {0, redis.call('PTTL', KEYS[1])}
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
return {1}

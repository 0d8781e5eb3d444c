-- KEYS: 1 the lock (hash: o owner, f fence, one field h:REQUEST for each hold), 2 the fence's key.
-- ARGV: 1 owner, 2 request, 3 lease in ms.
-- Returns {1, fence, holds} when acquired, {0, ms left} when another owner has it.
-- Atomic because owner, holds and fence must never be seen one without the other. A repeated
-- request is one hold; a further hold keeps the fence and never shortens the lease.
local lock = redis.call('HMGET', KEYS[1], 'o', 'f')
if lock[1] and lock[1] ~= ARGV[1] then
  return {0, redis.call('PTTL', KEYS[1])}
end
local fence = tonumber(lock[2] or '0')
if not lock[1] then
  local time = redis.call('TIME')
  local stored = tonumber(redis.call('GET', KEYS[2]) or '0')
  fence = math.max(stored + 1, time[1] * 1000000 + time[2])
  redis.call('SET', KEYS[2], string.format('%.0f', fence), 'EX', 604800)
end
redis.call('HSET', KEYS[1], 'o', ARGV[1], 'f', string.format('%.0f', fence), 'h:' .. ARGV[2], 1)
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return {1, fence, redis.call('HLEN', KEYS[1]) - 2}

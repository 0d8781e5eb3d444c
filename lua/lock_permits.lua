-- KEYS: 1 the permits taken (REQUEST#1.. by server time in ms when they end), 2 how many there are,
-- 3 the fence's key. ARGV: 1 request, 2 lease in ms, 3 permits wanted, 4 how many there shall be if
-- that is not set, or 0.
-- Returns {1, fence, permits taken} when acquired, {0, ms until the next one ends} when too few are
-- left, {3} when their number is not set or fewer than wanted.
-- Atomic because counting and taking must not be parted. Permits that have ended are back by that.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
redis.call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
local limit = tonumber(redis.call('GET', KEYS[2]) or ARGV[4])
local wanted = tonumber(ARGV[3])
if limit == 0 or wanted > limit then
  return {3}
end
redis.call('SET', KEYS[2], limit, 'EX', 604800)
local taken = redis.call('ZCARD', KEYS[1])
if not redis.call('ZSCORE', KEYS[1], ARGV[1] .. '#1') then
  if taken + wanted > limit then
    local first = redis.call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
    return {0, first[2] and first[2] - now or 0}
  end
  taken = taken + wanted
end
for i = 1, wanted do
  redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1] .. '#' .. i)
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
local stored = tonumber(redis.call('GET', KEYS[3]) or '0')
local fence = math.max(stored + 1, time[1] * 1000000 + time[2])
redis.call('SET', KEYS[3], string.format('%.0f', fence), 'EX', 604800)
return {1, fence, taken}

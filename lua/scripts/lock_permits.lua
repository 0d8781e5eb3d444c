-- KEYS: 1 the permits taken (REQUEST#1.. by server time in ms when they end), 2 how many there are,
-- 3 the fence's key, 4 where lock_permits_release keeps the request.
-- ARGV: 1 request, 2 lease in ms, 3 permits wanted, 4 how many there shall be if that is not set,
-- or 0.
-- Returns {1, fence, permits taken} when acquired, {0, ms until the next one ends} when too few are
-- left, {3} when their number is not set or fewer than wanted, {4} when the request was released
-- before.
-- Atomic because counting and taking must not be parted. The count leaves out permits that have
-- ended.
local call = redis.call
local released_key, request = KEYS[4], ARGV[1]
-- include: refuse_released.lua
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local known = call('GETEX', KEYS[2], 'EX', '604800')
local limit = tonumber(known or ARGV[4])
local wanted = tonumber(ARGV[3])
if limit == 0 or wanted > limit then
  return {3}
end
if not known then
  call('SET', KEYS[2], ARGV[4], 'EX', '604800')
end
local taken = call('ZCARD', KEYS[1])
if taken > 0 then
  taken = taken - call('ZREMRANGEBYSCORE', KEYS[1], '-inf', now)
end
local fresh = taken == 0
if fresh or not call('ZSCORE', KEYS[1], ARGV[1] .. '#1') then
  if taken + wanted > limit then
    local first = call('ZRANGE', KEYS[1], 0, 0, 'WITHSCORES')
    return {0, first[2] and first[2] - now or 0}
  end
  taken = taken + wanted
end
local ends = string.format('%d', now + ARGV[2])
for i = 1, wanted do
  call('ZADD', KEYS[1], ends, ARGV[1] .. '#' .. i)
end
if fresh or call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  call('PEXPIRE', KEYS[1], ARGV[2])
end
local fence, fence_key = nil, KEYS[3]
-- include: fence_next.lua
return '1 ' .. fence .. ' ' .. taken

-- KEYS: 1 the permits taken (as in lock_permits). ARGV: 1 request, 2 lease in ms from now.
-- Returns {1} when all of the request's permits are renewed, {0} when they have ended.
-- Atomic because only permits that have not ended may be extended; none is created again.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local i = 1
while true do
  local ends = redis.call('ZSCORE', KEYS[1], ARGV[1] .. '#' .. i)
  if not ends or tonumber(ends) <= now then
    break
  end
  redis.call('ZADD', KEYS[1], now + ARGV[2], ARGV[1] .. '#' .. i)
  i = i + 1
end
if i == 1 then
  return {0}
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {1}

-- KEYS: 1 the permits taken (as in lock_permits), 2 the fence's key.
-- ARGV: 1 request, 2 lease in ms from now, 3 '1' when the request does not know its fence.
-- Returns {1, fence} when all of the request's permits are renewed, {0} when they have ended.
-- Atomic because only permits that have not ended may be extended; none is created again. A request
-- that does not know its fence gets a new one, because the last one may be another's; otherwise the
-- fence is 0. The time to live comes first: a full Redis refuses a script whose first write needs
-- memory.
local call = redis.call
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local i = 1
local ends = call('ZSCORE', KEYS[1], ARGV[1] .. '#1')
if not ends or tonumber(ends) <= now then
  return {0}
end
call('PEXPIRE', KEYS[1], math.max(call('PTTL', KEYS[1]), ARGV[2]))
while ends and tonumber(ends) > now do
  call('ZADD', KEYS[1], now + ARGV[2], ARGV[1] .. '#' .. i)
  i = i + 1
  ends = call('ZSCORE', KEYS[1], ARGV[1] .. '#' .. i)
end
local fence, fence_key = '0', KEYS[2]
if ARGV[3] == '1' then
  -- include: fence_next.lua
end
return '1 ' .. fence

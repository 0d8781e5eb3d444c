-- KEYS: 1 the read holds, 2 their number by owner, 3 the fence's key (all as in lock_read).
-- ARGV: 1 owner, 2 request, 3 lease in ms from now.
-- Returns {1, fence} when renewed, {0} when the hold is not there or has ended.
-- Atomic because only a hold that has not ended may be extended; it is never created again. The
-- times to live come first: a full Redis refuses a script whose first write needs memory.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local hold = ARGV[1] .. '/' .. ARGV[2]
if tonumber(redis.call('ZSCORE', KEYS[1], hold) or '0') <= now then
  return {0}
end
for i = 1, 2 do
  redis.call('PEXPIRE', KEYS[i], math.max(redis.call('PTTL', KEYS[i]), ARGV[3]))
end
redis.call('ZADD', KEYS[1], 'XX', now + ARGV[3], hold)
return {1, tonumber(redis.call('GET', KEYS[3]) or '0')}

-- KEYS: 1 the latch's count, 2 the requests counted. ARGV: 1 request.
-- Returns {1, left} when this request has been counted, now or before; {2} when there is no latch.
-- Atomic because a repeated request must count once, and only the last count opens the latch and
-- wakes the waiters on the channel named like it. An open latch stays at 0 until its time to live
-- ends.
local left = tonumber(redis.call('GET', KEYS[1]) or '-1')
if left < 0 then
  return {2}
end
if left == 0 or redis.call('SADD', KEYS[2], ARGV[1]) == 0 then
  return {1, left}
end
redis.call('PEXPIRE', KEYS[2], math.max(redis.call('PTTL', KEYS[1]), 1))
left = redis.call('DECR', KEYS[1])
if left == 0 then
  redis.call('PUBLISH', KEYS[1], '*')
end
return {1, left}

-- KEYS: 1 the latch's count, 2 the requests counted, 3 those counted before the latch was set anew,
-- 4 the generation, and the last one before it that was open.
-- ARGV: 1 request, 2 this call, 3 the generation meant, 0: any.
-- Returns {1, left} when this request has been counted, now or before; {5} when there is no latch,
-- {6} when it has been set again without having been open.
-- Atomic because a repeated request must count once, and only the last count opens the latch and
-- wakes the waiters on the channel named like it. An open latch stays at 0 until its time to live
-- ends. A request may count again once the latch is set anew; a call that is sent again may not.
-- The time to live comes before the count: a full Redis refuses a script whose first write needs
-- memory.
local call = redis.call
local generation_key, generation = KEYS[4], ARGV[3]
local left = tonumber(call('GET', KEYS[1]) or '-1')
if left < 0 then
  return {5}
end
if call('SISMEMBER', KEYS[3], ARGV[2]) == 1 then
  return {1, left}
end
-- include: latch_generation.lua
if left == 0 then
  return {1, left}
end
local ttl = math.max(call('PTTL', KEYS[1]), 1)
local dated = call('PEXPIRE', KEYS[2], ttl) == 1
if call('SADD', KEYS[2], ARGV[1]) == 0 then
  return {1, left}
end
call('SADD', KEYS[2], ARGV[2])
if not dated then
  call('PEXPIRE', KEYS[2], ttl)
end
left = call('DECR', KEYS[1])
if left == 0 then
  local channel, message = KEYS[1], '*'
  -- include: tell.lua
end
return {1, left}

-- KEYS: 1 the latch's count, 2 the requests counted, 3 those counted before the latch was set anew,
-- 4 the generation, and the last one before it that was open.
-- ARGV: 1 count, 2 ms until it is forgotten.
-- Returns {1, generation} when set, {0, left} when it is set already and not open.
-- Atomic because a latch must not be set again while others count it down. The requests of before
-- are kept for a minute: one whose answer was lost is sent again, and must not count now.
-- Generations need only differ: the time in us does.
local call = redis.call
local left = tonumber(call('GET', KEYS[1]) or '-1')
if left > 0 then
  return {0, left}
end
local before = call('HGET', KEYS[4], 'generation') or '0'
local now = call('TIME')
local generation = math.max(now[1] * 1000000 + now[2], before + 1)
if call('PEXPIRE', KEYS[2], 60000) == 1 then
  call('RENAME', KEYS[2], KEYS[3])
end
call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
call('HSET', KEYS[4], 'generation', string.format('%.0f', generation),
  'opened', left == 0 and before or '0')
call('PEXPIRE', KEYS[4], ARGV[2])
return {1, generation}

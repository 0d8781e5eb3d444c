-- KEYS: 1 the latch's count, 2 the requests counted, 3 those counted before the latch was set anew.
-- ARGV: 1 count, 2 ms until it is forgotten.
-- Returns {1} when set, {0, left} when it is set already and not open.
-- Atomic because a latch must not be set again while others count it down. The requests of before
-- are kept for a minute: one whose answer was lost is sent again, and must not count now.
local left = tonumber(redis.call('GET', KEYS[1]) or '0')
if left > 0 then
  return {0, left}
end
if redis.call('PEXPIRE', KEYS[2], 60000) == 1 then
  redis.call('RENAME', KEYS[2], KEYS[3])
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return {1, tonumber(ARGV[1])}

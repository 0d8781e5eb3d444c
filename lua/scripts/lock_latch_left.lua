-- KEYS: 1 the latch's count.
-- ARGV: none.
-- Returns {1, 0} when the latch is open, {0, -1} when it is not, {5} when there is none.
-- It only reads. An open latch stays at 0 until its time to live ends.
local left = tonumber(redis.call('GET', KEYS[1]) or '-1')
if left < 0 then
  return {5}
end
if left > 0 then
  return {0, -1}
end
return {1, 0}

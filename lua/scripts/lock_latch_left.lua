-- KEYS: 1 the latch's count, 2 the generation, and the last one before it that was open.
-- ARGV: 1 the generation meant, 0: any.
-- Returns {1, 0} when the latch is open, {0, -1} when it is not, {5} when there is none, {6} when
-- it has been set again without having been open.
-- It only reads. An open latch stays at 0 until its time to live ends.
local call = redis.call
local generation_key, generation = KEYS[2], ARGV[1]
local left = tonumber(call('GET', KEYS[1]) or '-1')
if left < 0 then
  return {5}
end
-- include: latch_generation.lua
if left > 0 then
  return {0, -1}
end
return {1, 0}

-- KEYS: 1 the latch's count, 2 the generation, and the last one before it that was open.
-- ARGV: 1 the generation meant, 0: any.
-- Returns {1, 0} when the latch is open, {0, -1} when it is not, {5} when there is none, {6} when
-- it has been set again without having been open.
-- It only reads. An open latch stays at 0 until its time to live ends.
local left = tonumber(redis.call('GET', KEYS[1]) or '-1')
if left < 0 then
  return {5}
end
if ARGV[1] ~= '0' then
  local known = redis.call('HMGET', KEYS[2], 'generation', 'opened')
  if known[2] == ARGV[1] then
    return {1, 0}
  elseif known[1] ~= ARGV[1] then
    return {6}
  end
end
if left > 0 then
  return {0, -1}
end
return {1, 0}

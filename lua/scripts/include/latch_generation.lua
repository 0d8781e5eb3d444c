-- Ends the script unless the latch is still of the generation that the caller means.
-- KEYS, ARGV: none of its own. It uses the locals `call` (redis.call), `generation_key` and
-- `generation`, '0' for any.
-- Returns {1, 0} when that generation was open before the latch was set again, {6} when it never
-- was; otherwise nothing, and the script goes on.
if generation ~= '0' then
  local known = call('HMGET', generation_key, 'generation', 'opened')
  if known[2] == generation then
    return {1, 0}
  elseif known[1] ~= generation then
    return {6}
  end
end

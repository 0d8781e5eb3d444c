-- Refuses a request that was released before it came: its caller has heard that it holds nothing,
-- and would neither renew nor release what the request acquired now.
-- KEYS, ARGV: none of its own. It uses the locals `call` (redis.call), `released_key` (where the
-- release scripts keep the request) and `request`. Returns {4} when refused.
local released = call('GET', released_key)
if released and (released == request or released == '-' .. request) then
  return {4}
end

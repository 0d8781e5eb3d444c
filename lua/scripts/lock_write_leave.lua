-- KEYS: 1 the writer, 2 the mark of a waiting writer (both as in lock_read). ARGV: 1 request.
-- Returns {1} when the mark was this request's and is gone, {0} when it was not.
-- Atomic because another writer's mark must stay. The readers that it kept out wake.
local call = redis.call
if call('GET', KEYS[2]) ~= ARGV[1] then
  return {0}
end
call('DEL', KEYS[2])
local channel, message = KEYS[1], '*'
-- include: tell.lua
return {1}

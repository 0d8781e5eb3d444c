-- Makes the next fence, max(stored + 1, server time in us): fences go on growing when the stored
-- one was lost or is an older one, as long as the server's clock is not set back by more.
-- KEYS, ARGV: none of its own. It uses the locals `call` (redis.call), `time` (what TIME answered)
-- and `fence_key`. Returns nothing: it sets the local `fence` to the new fence, as text.
fence = time[1] .. string.sub('00000' .. time[2], -6)
local stored_fence = call('SET', fence_key, fence, 'EX', '604800', 'GET')
if stored_fence and tonumber(stored_fence) >= tonumber(fence) then
  fence = string.format('%d', stored_fence + 1)
  call('SET', fence_key, fence, 'EX', '604800')
end

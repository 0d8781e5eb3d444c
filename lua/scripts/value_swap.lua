-- KEYS: 1 the value's key, a hash: v version, d data, c the last change's id.
-- ARGV: 1 the version it must have (0: there must be none), 2 new data, 3 this change's id, 4 time
-- to live in ms.
-- Returns {1, new version}, or {0, present version} when it is not the one expected.
-- Atomic because nobody may change the value between the comparison and the write. The new version
-- is max(version + 1, server time in us), so that a value forgotten and made anew never has an old
-- one again. A repeat of the same change gives the first answer,
-- unless another change came between: then the caller cannot know.
local now = redis.call('HMGET', KEYS[1], 'v', 'c')
if now[2] == ARGV[3] then
  return {1, tonumber(now[1])}
end
if (now[1] or '0') ~= ARGV[1] then
  return {0, tonumber(now[1] or '0')}
end
local time = redis.call('TIME')
local version = math.max(tonumber(ARGV[1]) + 1, time[1] * 1000000 + time[2])
redis.call('HSET', KEYS[1], 'v', string.format('%.0f', version), 'd', ARGV[2], 'c', ARGV[3])
redis.call('PEXPIRE', KEYS[1], ARGV[4])
return {1, version}

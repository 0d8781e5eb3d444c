-- KEYS: 1 the writer (as in lock_reenter), 2 the read holds (OWNER/REQUEST by server time in ms
-- when they end), 3 their number by owner, 4 the mark of a waiting writer, 5 the fence's key,
-- 6 where lock_read_release keeps the request.
-- ARGV: 1 owner, 2 request, 3 lease in ms.
-- Returns {1, fence, read holds} when acquired, {0, ms left} when another owner writes or waits
-- to, {4} when the request was released before.
-- Atomic because the next writer must know of every reader. Read holds that have ended are dropped,
-- a bounded number at a time, so that none outlives its own lease. The fence is the last writer's.
-- An owner that reads or writes already does not wait for a waiting writer.
local call = redis.call
local released_key, request = KEYS[6], ARGV[2]
-- include: refuse_released.lua
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
for _, hold in ipairs(call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 100)) do
  local owner = string.match(hold, '^[^/]*')
  call('ZREM', KEYS[2], hold)
  if call('HINCRBY', KEYS[3], owner, -1) <= 0 then
    call('HDEL', KEYS[3], owner)
  end
end
local writer = call('HGET', KEYS[1], 'o')
if writer and writer ~= ARGV[1] then
  return {0, call('PTTL', KEYS[1])}
end
if not writer and call('HEXISTS', KEYS[3], ARGV[1]) == 0 then
  local marked = call('PTTL', KEYS[4])
  if marked > 0 then
    return {0, marked}
  end
end
if call('ZADD', KEYS[2], now + ARGV[3], ARGV[1] .. '/' .. ARGV[2]) == 1 then
  call('HINCRBY', KEYS[3], ARGV[1], 1)
end
if call('PTTL', KEYS[2]) < tonumber(ARGV[3]) then
  call('PEXPIRE', KEYS[2], ARGV[3])
end
if call('PTTL', KEYS[3]) < tonumber(ARGV[3]) then
  call('PEXPIRE', KEYS[3], ARGV[3])
end
local fence, fence_key = call('GET', KEYS[5]), KEYS[5]
if not fence then
  -- include: fence_next.lua
end
return '1 ' .. fence .. ' ' .. call('HGET', KEYS[3], ARGV[1])

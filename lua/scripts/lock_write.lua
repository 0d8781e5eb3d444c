-- KEYS: 1 the writer, 2 the read holds, 3 their number by owner, 4 the mark of a waiting writer, 5
-- the fence's key (all as in lock_read), 6 where lock_reenter_release keeps the request.
-- ARGV: 1 owner, 2 request, 3 lease in ms, 4 ms for which the mark of a waiting writer lasts, or 0.
-- Returns {1, fence, holds} when acquired, {0, ms left} when others read or write, {2} when the
-- owner itself reads: to write it would wait for itself, {4} when the request was released before.
-- Atomic because writer, readers and fence must be seen together. Read holds that have ended are
-- dropped, a bounded number at a time. A waiting writer keeps new readers out.
local call = redis.call
local released_key, request = KEYS[6], ARGV[2]
-- include: refuse_released.lua
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lock = call('HMGET', KEYS[1], 'o', 'f')
local read = call('ZCARD', KEYS[2]) > 0
if read then
  for _, hold in ipairs(call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, 100)) do
    local owner = string.match(hold, '^[^/]*')
    call('ZREM', KEYS[2], hold)
    if call('HINCRBY', KEYS[3], owner, -1) <= 0 then
      call('HDEL', KEYS[3], owner)
    end
  end
end
if lock[1] ~= ARGV[1] then
  if read and call('HEXISTS', KEYS[3], ARGV[1]) == 1 then
    return {2}
  end
  local last = read and call('ZRANGE', KEYS[2], -1, -1, 'WITHSCORES') or {}
  if lock[1] or last[1] then
    if ARGV[4] ~= '0' then
      call('SET', KEYS[4], ARGV[2], 'PX', ARGV[4])
    end
    return {0, lock[1] and call('PTTL', KEYS[1]) or last[2] - now}
  end
end
if call('GET', KEYS[4]) == ARGV[2] then
  call('DEL', KEYS[4])
end
if not lock[1] then
  local fence, fence_key = nil, KEYS[5]
  -- include: fence_next.lua
  call('HSET', KEYS[1], 'o', ARGV[1], 'f', fence, 'h:' .. ARGV[2], '1')
  call('PEXPIRE', KEYS[1], ARGV[3])
  return '1 ' .. fence .. ' 1'
end
call('HSET', KEYS[1], 'h:' .. ARGV[2], '1')
if call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
  call('PEXPIRE', KEYS[1], ARGV[3])
end
return {1, tonumber(lock[2]), call('HLEN', KEYS[1]) - 2}

-- KEYS: 1 the lock (as in lock_reenter), 2 the queue (list of requests), 3 until when each of them
-- counts as alive (request by server time in ms), 4 the fence's key, 5 where lock_fair_leave keeps
-- the request.
-- ARGV: 1 owner, 2 request, 3 lease in ms, 4 ms for which a waiter counts as alive, 5 '1' to queue.
-- Returns {1, fence, holds} when acquired, {0, ms until another try is worth it} when not, {4} when
-- the request was released before.
-- Atomic because place, lock and fence must move together. Each call shows that its waiter lives;
-- heads of the queue that no longer count as alive are dropped, a bounded number at a time. No sums
-- over the queue.
local call = redis.call
local released_key, request = KEYS[5], ARGV[2]
-- include: refuse_released.lua
local time = call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lock = call('HMGET', KEYS[1], 'o', 'f')
local head, alive
for _ = 1, 64 do
  head = call('LINDEX', KEYS[2], 0)
  if not head or head == ARGV[2] then
    break
  end
  alive = tonumber(call('ZSCORE', KEYS[3], head) or '0')
  if alive > now then
    break
  end
  call('LPOP', KEYS[2])
  call('ZREM', KEYS[3], head)
end
local mine = lock[1] == ARGV[1]
local free = not lock[1] and (not head or head == ARGV[2])
if (mine or free) and head and call('ZREM', KEYS[3], ARGV[2]) == 1 then
  call('LREM', KEYS[2], 1, ARGV[2])
end
if free then
  local fence, fence_key = nil, KEYS[4]
  -- include: fence_next.lua
  call('HSET', KEYS[1], 'o', ARGV[1], 'f', fence, 'h:' .. ARGV[2], '1')
  call('PEXPIRE', KEYS[1], ARGV[3])
  return '1 ' .. fence .. ' 1'
end
if mine then
  call('HSET', KEYS[1], 'h:' .. ARGV[2], '1')
  if call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
    call('PEXPIRE', KEYS[1], ARGV[3])
  end
  return {1, tonumber(lock[2]), call('HLEN', KEYS[1]) - 2}
end
if ARGV[5] == '1' then
  if call('ZADD', KEYS[3], now + ARGV[4], ARGV[2]) == 1 then
    call('RPUSH', KEYS[2], ARGV[2])
  end
  call('PEXPIRE', KEYS[2], ARGV[4] * 10)
  call('PEXPIRE', KEYS[3], ARGV[4] * 10)
end
if lock[1] then
  return {0, call('PTTL', KEYS[1])}
end
local channel, message = KEYS[1] .. ':' .. head, '1'
-- include: tell.lua
return {0, alive - now}

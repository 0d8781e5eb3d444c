-- KEYS: 1 the lock (as in lock_reenter), 2 the queue (list of requests), 3 their signs of life
-- (request by server time in ms until which it counts as alive), 4 the fence's key.
-- ARGV: 1 owner, 2 request, 3 lease in ms, 4 ms for which a waiter counts as alive, 5 '1' to queue.
-- Returns {1, fence, holds} when acquired, {0, ms until it is worth asking again} when not.
-- Atomic because place, lock and fence must move together. Each call is its waiter's sign of life;
-- heads of the queue without one are dropped, a bounded number at a time. No sums over the queue.
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local lock = redis.call('HMGET', KEYS[1], 'o', 'f')
local head, alive
for _ = 1, 64 do
  head = redis.call('LINDEX', KEYS[2], 0)
  alive = head and tonumber(redis.call('ZSCORE', KEYS[3], head) or '0')
  if not head or head == ARGV[2] or alive > now then
    break
  end
  redis.call('LPOP', KEYS[2])
  redis.call('ZREM', KEYS[3], head)
end
local fence = tonumber(lock[2] or '0')
local take = lock[1] == ARGV[1]
if not lock[1] and (not head or head == ARGV[2]) then
  take = true
  local stored = tonumber(redis.call('GET', KEYS[4]) or '0')
  fence = math.max(stored + 1, time[1] * 1000000 + time[2])
  redis.call('SET', KEYS[4], string.format('%.0f', fence), 'EX', 604800)
end
if take then
  if redis.call('ZREM', KEYS[3], ARGV[2]) == 1 then
    redis.call('LREM', KEYS[2], 1, ARGV[2])
  end
  redis.call('HSET', KEYS[1], 'o', ARGV[1], 'f', string.format('%.0f', fence), 'h:' .. ARGV[2], 1)
  if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[3]) then
    redis.call('PEXPIRE', KEYS[1], ARGV[3])
  end
  return {1, fence, redis.call('HLEN', KEYS[1]) - 2}
end
if ARGV[5] == '1' then
  if redis.call('ZADD', KEYS[3], now + ARGV[4], ARGV[2]) == 1 then
    redis.call('RPUSH', KEYS[2], ARGV[2])
  end
  redis.call('PEXPIRE', KEYS[2], ARGV[4] * 10)
  redis.call('PEXPIRE', KEYS[3], ARGV[4] * 10)
end
if lock[1] then
  return {0, redis.call('PTTL', KEYS[1])}
end
redis.call('PUBLISH', KEYS[1] .. ':' .. head, '1')
return {0, alive - now}

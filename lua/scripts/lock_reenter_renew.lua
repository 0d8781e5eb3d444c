-- KEYS: 1 the lock (as in lock_reenter). ARGV: 1 request, 2 lease in ms from now.
-- Returns {1, fence} when renewed; when the request's hold is not there (any more), {0, 1} if
-- another holds the lock, else {0, 0}.
-- Atomic because only a holder may extend the lease. The script never shortens a lease that another
-- hold of the owner has asked for, and never creates the lock again.
if redis.call('HEXISTS', KEYS[1], 'h:' .. ARGV[1]) == 0 then
  return {0, redis.call('EXISTS', KEYS[1])}
end
if redis.call('PTTL', KEYS[1]) < tonumber(ARGV[2]) then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
end
return {1, tonumber(redis.call('HGET', KEYS[1], 'f'))}

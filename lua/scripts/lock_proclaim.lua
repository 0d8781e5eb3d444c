-- KEYS: 1 the lock (a string, as in lock_acquire, or a hash, as in lock_reenter), 2 the record of
-- its leader (hash: f fence, n number of the proclamation, t the holder's token, v value).
-- ARGV: 1 request, 2 lease in ms from now, 3 its fence, 4 number of the proclamation, 5 the
-- holder's token, 6 value, 7 message for the observers on the channel named like the record, ''
-- for none.
-- Returns {1} when renewed and proclaimed; when the request does not hold the lock (any more),
-- {0, 1} if another holds it, else {0, 0}.
-- Atomic because a value must never be proclaimed after its term. A sending that comes after a
-- later proclamation of the same term only renews. The record lives as long as the lock, so each
-- renewal proclaims again. The first write is a time to live: a full Redis refuses a script whose
-- first write needs memory.
local call = redis.call
local mine
if call('TYPE', KEYS[1]).ok == 'hash' then
  mine = call('HEXISTS', KEYS[1], 'h:' .. ARGV[1]) == 1
else
  mine = call('GET', KEYS[1]) == ARGV[1]
end
if not mine then
  return {0, call('EXISTS', KEYS[1])}
end
local left = math.max(call('PTTL', KEYS[1]), ARGV[2])
call('PEXPIRE', KEYS[1], left)
local last = call('HMGET', KEYS[2], 'f', 'n')
if last[1] ~= ARGV[3] or tonumber(last[2]) <= tonumber(ARGV[4]) then
  call('HSET', KEYS[2], 'f', ARGV[3], 'n', ARGV[4], 't', ARGV[5], 'v', ARGV[6])
  if ARGV[7] ~= '' then
    local channel, message = KEYS[2], ARGV[7]
    -- include: tell.lua
  end
end
call('PEXPIRE', KEYS[2], left)
return {1}

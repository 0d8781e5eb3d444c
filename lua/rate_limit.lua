-- KEYS: 1.. the users of a batch, then its client addresses. ARGV: 1 number of users among them, 2
-- us per order of a user, 3 burst of a user, 4 and 5 the same of an address, 6 the orders in turn:
-- four characters each, the numbers of its user and of its address among the keys (0: not
-- limited), each as two digits of base 64, the high one first, that begin at '0'.
-- Returns four numbers for each order that is refused, none for those that are let through: its
-- place from 1, 1 when its user is over the limit or 2 when its address is, ms until one more
-- would be let through, ms until the whole burst is there again.
-- Atomic because a subject's orders must be counted one after the other, whoever carries them.
-- The generic cell rate algorithm (ITU-T I.371, virtual scheduling): a subject's value is the time
-- in us at which its next order would be due at the steady rate; an order may come up to (burst -
-- 1) intervals before that, and one that is refused is not counted. A value ends by itself when it
-- is past, or soon after.
local call, byte = redis.call, string.byte
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local users = tonumber(ARGV[1])
local interval = {tonumber(ARGV[2]), tonumber(ARGV[4])}
local span = {interval[1] * ARGV[3], interval[2] * ARGV[5]}
local stored = call('MGET', unpack(KEYS))
local due = {} -- as this batch has changed it
local refused = {}

-- The subject's value: not past, and cut when the server's clock was ahead when it was written.
local function value_of(subject, kind)
  local value = due[subject] or tonumber(stored[subject] or now) or now
  return math.min(math.max(value, now), now + span[kind])
end

local function refuse(place, kind, value)
  local n = #refused
  refused[n + 1] = place
  refused[n + 2] = kind
  refused[n + 3] = math.ceil((value + interval[kind] - span[kind] - now) / 1000)
  refused[n + 4] = math.ceil((value - now) / 1000)
end

local latest = {now + span[1] - interval[1], now + span[2] - interval[2]}
local orders = ARGV[6]
for at = 1, #orders, 4 do
  local a, b, c, d = byte(orders, at, at + 3)
  local user, address = a * 64 + b - 3120, c * 64 + d - 3120
  local user_value = user > 0 and value_of(user, 1) or 0
  local address_value = address > 0 and value_of(address, 2) or 0
  if user > 0 and user_value > latest[1] then
    refuse((at + 3) / 4, 1, user_value)
  elseif address > 0 and address_value > latest[2] then
    refuse((at + 3) / 4, 2, address_value)
  else
    if user > 0 then due[user] = user_value + interval[1] end
    if address > 0 then due[address] = address_value + interval[2] end
  end
end

-- Values need not survive Redis, nor be known to a replica: at worst a burst comes once more. In
-- the append-only file they would cost as much again.
redis.set_repl(redis.REPL_NONE)
local ttl = {math.ceil(span[1] / 1000) .. '', math.ceil(span[2] / 1000) .. ''}
for subject, value in pairs(due) do
  local kind = subject > users and 2 or 1
  call('SET', KEYS[subject], string.format('%d', value), 'PX', ttl[kind])
end
return refused

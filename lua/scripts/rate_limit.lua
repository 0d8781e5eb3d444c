-- KEYS: 1 and 2 the values of users, newer and older; 3 and 4 the values of client addresses. ARGV:
-- 1 number of users, 2 us per order of a user, 3 burst of a user, 4 and 5 us and burst of an
-- address, 6 the orders in turn, 7.. the subjects: users, then addresses, each once and none ''. An
-- order is four characters: the places of its user and of its address among the subjects (0: not
-- limited), each as two digits of base 64, the high digit first; '0' is the digit zero.
-- Returns four numbers for each order that is refused and none for the others: the order's place
-- from 1; 1 when its user is over the limit, 2 when its address is; ms until one more order would
-- be let through; ms until the whole burst is there again.
-- Atomic because a subject's orders must be counted one after the other, whichever process they
-- reach.
-- The generic cell rate algorithm (ITU-T I.371, virtual scheduling): a subject's value is the time
-- in us at which its next order would be due at the steady rate; an order may come up to (burst -
-- 1) intervals earlier, and a refused order is not counted.
-- A value means nothing once the time of a whole burst has passed. So two hashes hold every value
-- that matters: when the newer hash has been written to for that long, the script drops the older
-- hash and the newer one takes its place. A key with an expiry for each subject costs twice as
-- much.
local call, byte, format = redis.call, string.byte, string.format
local time = call('TIME')
local now = time[1] * 1000000 + time[2]
local users = tonumber(ARGV[1])
local first, last = {1, users + 1}, {users, #ARGV - 6}
local interval = {tonumber(ARGV[2]), tonumber(ARGV[4])}
local span = {interval[1] * ARGV[3], interval[2] * ARGV[5]}
local latest = {now + span[1] - interval[1], now + span[2] - interval[2]}
local due, counted = {}, {} -- by subject: its value; true when this batch has changed it
local refused = {}

-- Values need not survive a restart nor reach a replica: at worst a burst is let through once more.
-- Writing them to the append-only file would cost as much again.
redis.set_repl(redis.REPL_NONE)

-- Begins a newer hash when the present one is old enough. Its field '' says when it was begun.
local function turn(kind, newer, older)
  local began = tonumber(call('HGET', newer, ''))
  if began and now >= began and now < began + span[kind] then return end
  if began then
    call('UNLINK', older)
    call('RENAME', newer, older)
  end
  call('HSET', newer, '', format('%d', now))
end

-- Cuts a value that was written while the server's clock was ahead.
local function read(kind, key)
  local before = first[kind] - 1
  local stored = call('HMGET', key, unpack(ARGV, first[kind] + 6, last[kind] + 6))
  for i = 1, #stored do
    local value = tonumber(stored[i])
    if value and value > now then due[before + i] = math.min(value, now + span[kind]) end
  end
end

local function write(kind, key)
  local fields, texts, n = {}, {}, 0
  for subject = first[kind], last[kind] do
    if counted[subject] then
      local value = due[subject]
      texts[value] = texts[value] or format('%d', value) -- mostly the same for all
      fields[n + 1], fields[n + 2] = ARGV[subject + 6], texts[value]
      n = n + 2
    end
  end
  if n > 0 then call('HSET', key, unpack(fields)) end
  -- Twice the time: while orders come, UNLINK frees a hash in the background before it expires.
  call('PEXPIRE', key, math.ceil(span[kind] / 500))
end

local function refuse(place, kind, value)
  local n = #refused
  refused[n + 1] = place
  refused[n + 2] = kind
  refused[n + 3] = math.ceil((value - latest[kind]) / 1000)
  refused[n + 4] = math.ceil((value - now) / 1000)
end

local function each_kind(visit)
  for kind = 1, 2 do
    if first[kind] <= last[kind] then visit(kind, KEYS[2 * kind - 1], KEYS[2 * kind]) end
  end
end

each_kind(function(kind, newer, older)
  turn(kind, newer, older)
  read(kind, older)
  read(kind, newer)
end)
local orders = ARGV[6]
for at = 1, #orders, 4 do
  local a, b, c, d = byte(orders, at, at + 3)
  local user, address = a * 64 + b - 3120, c * 64 + d - 3120
  local user_due, address_due = due[user] or now, due[address] or now
  if user > 0 and user_due > latest[1] then
    refuse((at + 3) / 4, 1, user_due)
  elseif address > 0 and address_due > latest[2] then
    refuse((at + 3) / 4, 2, address_due)
  else
    if user > 0 then due[user], counted[user] = user_due + interval[1], true end
    if address > 0 then due[address], counted[address] = address_due + interval[2], true end
  end
end
each_kind(write)
return refused

-- Sends POST /order as fast as wrk can and ends with one line of JSON: the figures of the run.
--
-- Environment:
--   ORDER_SKUS    skus to choose from, separated by commas         (demo)
--   ORDER_QTY     units of an order: "1", or a range such as "1-5" (1)
--   ORDER_USERS   users to choose from; "distinct": each order has one of its own (10000000)
--   ORDER_KEYS    set: every order carries an Idempotency-Key of its own
--
-- Users and keys of one order each come in no order, as those of a shop do: an index over them
-- gets its entries all over, not at its end.
--
--   LOAD_TOOLS    the folder of this script                        (loadtest/tools)
--
-- Requests are prepared before the run and sent in turn, and answers are not looked at, so that
-- what is measured is the server and not this script. record_ids.c records accepted orders.

local PREPARED = 16384
-- For what is one order's own in its key and its user: 8 digits, as the length is set before.
local GAP = ("-"):rep(8)

local prepared = {}
local next_index = 0
local made = 0 -- keys and users
local users

local function environment(name, default)
  local value = os.getenv(name)
  if value == nil or value == "" then return default end
  return value
end

local function split(text)
  local parts = {}
  for part in text:gmatch("[^,]+") do parts[#parts + 1] = part end
  return parts
end

local function qty_range(text)
  local low, high = text:match("^(%d+)%-(%d+)$")
  if low then return tonumber(low), tonumber(high) end
  return tonumber(text), tonumber(text)
end

-- A name with a gap, which no other prepared request has.
local function name_with_gap()
  return string.format("%06x%06x.", math.random(0, 0xffffff), math.random(0, 0xffffff)) .. GAP
end

-- Keys come with users that are chosen when an order is sent: of a few prepared users each would
-- soon be at a limit.
local function user()
  if users == nil then return name_with_gap() end
  return environment("ORDER_KEYS") and GAP or math.random(users)
end

local function prepare()
  local headers = { ["Content-Type"] = "application/json" }
  local skus = split(environment("ORDER_SKUS", "demo"))
  local low, high = qty_range(environment("ORDER_QTY", "1"))
  for i = 1, PREPARED do
    local body = string.format('{"sku":"%s","user_id":"u%s","qty":%d}', skus[math.random(#skus)],
      user(), math.random(low, high))
    if environment("ORDER_KEYS") then headers["Idempotency-Key"] = name_with_gap() end
    prepared[i] = wrk.format("POST", nil, headers, body)
  end
end

local function cut_at_gaps(request)
  local parts, from = {}, 1
  while true do
    local first, last = request:find(GAP, from, true)
    parts[#parts + 1] = request:sub(from, (first or 0) - 1)
    if not first then return parts end
    from = last + 1
  end
end

-- The next prepared request, which is in parts.
local function next_parts()
  made = made + 1
  next_index = next_index % PREPARED + 1
  return prepared[next_index]
end

local function order_of_one_user()
  return (table.concat(next_parts(), string.format("%08d", made)))
end

local function order_with_key()
  local parts = next_parts() -- the key's header stands before the body
  local number = string.format("%08d", made)
  local name = users and string.format("%08d", math.random(users)) or number
  return parts[1] .. number .. parts[2] .. name .. parts[3]
end

function init()
  local a, b, c, d = io.open("/dev/urandom", "rb"):read(4):byte(1, 4)
  math.randomseed(a + 256 * (b + 256 * (c + 256 * d)))
  users = tonumber(environment("ORDER_USERS", "10000000"))
  prepare()
  if environment("ORDER_KEYS") or users == nil then
    request = environment("ORDER_KEYS") and order_with_key or order_of_one_user
    for i = 1, PREPARED do prepared[i] = cut_at_gaps(prepared[i]) end
  end
end

function request()
  next_index = next_index % PREPARED + 1
  return prepared[next_index]
end

done = dofile((os.getenv("LOAD_TOOLS") or "loadtest/tools") .. "/report.lua")()

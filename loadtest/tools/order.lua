-- Sends POST /order as fast as wrk can and ends with one line of JSON: the figures of the run.
--
-- Environment:
--   ORDER_SKUS    skus to choose from, separated by commas         (demo)
--   ORDER_QTY     units of an order: "1", or a range such as "1-5" (1)
--   ORDER_USERS   users to choose from; "distinct": each order has one of its own (1000000)
--   ORDER_KEYS    set: every order carries an Idempotency-Key of its own
--   ORDER_RECORD  set: path prefix; each thread appends the id of every order answered 201 to
--                 PREFIX.N, one a line, for `audit --acked`
--
-- Requests are prepared before the run and sent in turn, and answers are not looked at unless
-- they are recorded, so that what is measured is the server and not this script.

local PREPARED = 16384
local NUMBER = "00000000" -- of a key or user made for one order

local threads_made = 0
local prepared = {}
local next_index = 0
local made = 0 -- keys and users
local prefix

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

local function prepare(headers)
  local skus = split(environment("ORDER_SKUS", "demo"))
  local low, high = qty_range(environment("ORDER_QTY", "1"))
  local users = tonumber(environment("ORDER_USERS", "1000000"))
  local gap = ("-"):rep(#prefix + #NUMBER)
  for i = 1, PREPARED do
    local body = string.format('{"sku":"%s","user_id":"%s","qty":%d}',
      skus[math.random(#skus)], users and "u" .. math.random(users) or gap,
      math.random(low, high))
    prepared[i] = wrk.format("POST", nil, headers, body)
  end
end

-- What is each order's own stands in each prepared request as gaps, to be filled when it is sent.
local function request_of_its_own()
  made = made + 1
  next_index = next_index % PREPARED + 1
  return (table.concat(prepared[next_index], prefix .. string.format("%08d", made)))
end

local function cut_at_gaps(request)
  local parts, from = {}, 1
  local gap = ("-"):rep(#prefix + #NUMBER)
  while true do
    local first, last = request:find(gap, from, true)
    parts[#parts + 1] = request:sub(from, (first or 0) - 1)
    if not first then return parts end
    from = last + 1
  end
end

local function record_into(path)
  local file = assert(io.open(path, "a"))
  file:setvbuf("full", 65536)
  response = function(status, _, body)
    if status == 201 then
      file:write(body:match('"order_id":"(%d+)"'), "\n")
    end
  end
end

function setup(thread)
  thread:set("thread_index", threads_made)
  thread:set("seed", os.time() * 1000 + threads_made)
  threads_made = threads_made + 1
end

function init()
  math.randomseed(seed)
  local headers = { ["Content-Type"] = "application/json" }
  prefix = string.format("%x.", seed)
  if environment("ORDER_KEYS") then
    headers["Idempotency-Key"] = ("-"):rep(#prefix + #NUMBER)
  end
  prepare(headers)
  if environment("ORDER_KEYS") or environment("ORDER_USERS") == "distinct" then
    request = request_of_its_own
    for i = 1, PREPARED do prepared[i] = cut_at_gaps(prepared[i]) end
  end
  if environment("ORDER_RECORD") then
    record_into(environment("ORDER_RECORD") .. "." .. thread_index)
  end
end

function request()
  next_index = next_index % PREPARED + 1
  return prepared[next_index]
end

local LINE = '{"requests":%d,"duration_s":%.6f,"p50_ms":%.3f,"p90_ms":%.3f,"p99_ms":%.3f,' ..
  '"p999_ms":%.3f,"max_ms":%.3f,"errors":{"status":%d,"connect":%d,"read":%d,"write":%d,' ..
  '"timeout":%d}}\n'

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(LINE, summary.requests, summary.duration / 1e6,
    latency:percentile(50) / 1e3, latency:percentile(90) / 1e3, latency:percentile(99) / 1e3,
    latency:percentile(99.9) / 1e3, latency.max / 1e3,
    errors.status, errors.connect, errors.read, errors.write, errors.timeout))
end

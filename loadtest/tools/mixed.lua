-- Sends what a shop sends on a bad day, and ends with one line of JSON: the figures of the run.
--
-- Of 100 requests about 60 are orders, each with an Idempotency-Key of its own; 15 repeat a recent
-- one with its key; 5 use a recent key for another order; 5 are wrong in one way or another; the
-- rest asks for orders and stock and, where the service can, cancels and pays.
--
-- Environment: as order.lua's, but every order has a key; besides
--   ORDER_CALLS   calls on accepted orders, separated by commas: "cancel,pay" ()

local RECENT = 4096

local threads = {}

answers = {}
accepted = 0

local skus, calls = {}, {}
local low, high, users, key_prefix
local keys_made, recent, recent_made, ids, ids_made = 0, {}, 0, {}, 0
local json_headers = { ["Content-Type"] = "application/json" }

local function split(text, into)
  for part in text:gmatch("[^,]+") do into[#into + 1] = part end
end

local function body_of(sku, qty, user)
  user = user or math.random(users)
  return string.format('{"sku":"%s","user_id":"u%d","qty":%d}', sku, user, qty)
end

local function post(body, key)
  return wrk.format("POST", "/order", {
    ["Content-Type"] = "application/json", ["Idempotency-Key"] = key }, body)
end

local function new_order()
  keys_made = keys_made + 1
  local key, user = key_prefix .. keys_made, math.random(users)
  local request = post(body_of(skus[math.random(#skus)], math.random(low, high), user), key)
  recent[recent_made % RECENT + 1] = { request, key, user }
  recent_made = recent_made + 1
  return request
end

local function some_recent()
  return recent[math.random(#recent)]
end

local function repeated()
  if #recent == 0 then return new_order() end
  return some_recent()[1]
end

local function key_reused()
  if #recent == 0 then return new_order() end
  local order = some_recent()
  return post(body_of(skus[1], high + 1, order[3]), order[2])
end

local WRONG = {
  function() return wrk.format("POST", "/order", json_headers, body_of("nobody-sells-this", 1)) end,
  function() return wrk.format("POST", "/order", json_headers, body_of(skus[1], 0)) end,
  function() return wrk.format("POST", "/order", json_headers, '{"sku":') end,
  function() return wrk.format("POST", "/order", { ["Content-Type"] = "text/plain" }, "1") end,
  function() return wrk.format("POST", "/order", json_headers, '"' .. ("x"):rep(5000) .. '"') end,
  function() return wrk.format("GET", "/order/1") end,
}

local function wrong()
  return WRONG[math.random(#WRONG)]()
end

local function ask()
  if #ids == 0 or math.random(10) == 1 then
    return wrk.format("GET", "/stock/" .. skus[math.random(#skus)])
  end
  return wrk.format("GET", "/order/" .. ids[math.random(#ids)])
end

local function call()
  if #ids == 0 or #calls == 0 then return ask() end
  local path = "/order/" .. ids[math.random(#ids)] .. "/" .. calls[math.random(#calls)]
  return wrk.format("POST", path, json_headers, "")
end

local KINDS = { { 60, new_order }, { 15, repeated }, { 5, key_reused }, { 5, wrong }, { 10, ask },
  { 5, call } }

function setup(thread)
  thread:set("number", #threads)
  threads[#threads + 1] = thread
end

function init()
  local seed = os.time() * 1000 + number
  math.randomseed(seed)
  split(os.getenv("ORDER_SKUS") or "demo", skus)
  split(os.getenv("ORDER_CALLS") or "", calls)
  low, high = (os.getenv("ORDER_QTY") or "1-5"):match("^(%d+)%-?(%d*)$")
  low, high = tonumber(low), tonumber(high) or tonumber(low)
  users = tonumber(os.getenv("ORDER_USERS") or "10000000")
  key_prefix = string.format("m%d-%d-", seed, math.random(1000000000))
end

function request()
  local dice = math.random(100)
  for _, kind in ipairs(KINDS) do
    if dice <= kind[1] then return kind[2]() end
    dice = dice - kind[1]
  end
end

function response(status, _, body)
  local code = status >= 400 and body:match('"code":"([%w_]+)"')
  local answer = code and status .. " " .. code or tostring(status)
  answers[answer] = (answers[answer] or 0) + 1
  if status ~= 201 then return end
  local id = body:match('"order_id":"(%d+)"')
  accepted = accepted + 1
  ids[ids_made % RECENT + 1] = id
  ids_made = ids_made + 1
end

local function counted()
  local total, sum, parts = 0, {}, {}
  for _, thread in ipairs(threads) do
    total = total + thread:get("accepted")
    for answer, count in pairs(thread:get("answers")) do
      sum[answer] = (sum[answer] or 0) + count
    end
  end
  for answer, count in pairs(sum) do parts[#parts + 1] = string.format('"%s":%d', answer, count) end
  return string.format(',"accepted":%d,"answers":{%s}', total, table.concat(parts, ","))
end

done = dofile((os.getenv("LOAD_TOOLS") or "loadtest/tools") .. "/report.lua")(counted)

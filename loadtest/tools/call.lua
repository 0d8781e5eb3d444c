-- Sends one kind of call as fast as wrk can and ends with one line of JSON: the figures of the run.
--
-- Environment:
--   CALL        look_up, stock, pay, pay_ref, pay_late, cancel, keep, refund, extend, user_orders,
--               listing or metrics
--   CALL_SKU    the sale                                                      (demo)
--   CALL_IDS    path prefix: thread N reads ids of orders from PREFIX.N, one a line
--   CALL_REPEAT set: calls that change an order begin anew when they have used all ids
--   CALL_TOKEN  for calls that want a bearer's token
--   LOAD_TOOLS  the folder of this script                                     (loadtest/tools)
--
-- Calls that change an order use each id once: a repeat would be answered without doing anything.
-- When a thread has used all of its ids it stops, unless it may repeat them, and `ran_out` says so.
-- Answers are not looked at; wrk counts those with a status of 400 or more.

-- The path of each call that changes an order, and its body.
local CHANGES = {
  pay = { "/pay", "" }, cancel = { "/cancel", "" },
  pay_ref = { "/pay", '{"payment_ref":"pi_3PqXb2"}' },
  pay_late = { "/pay", '{"payment_ref":"pi_3PqXb2"}' },
  keep = { "/cancel", '{"keep":1}' },
  refund = { "/refund", '{"payment_ref":"pi_3PqXb2","restock":true}' },
  extend = { "/extend", nil }, -- see init
}
local USERS = 10000000 -- as many as order.lua's

local threads = {}
local ids, used, repeats, call, fixed = {}, 0, os.getenv("CALL_REPEAT"), nil, nil

ran_out = 0

local function headers()
  local token = os.getenv("CALL_TOKEN")
  local all = { ["Content-Type"] = "application/json" }
  if token then all["Authorization"] = "Bearer " .. token end
  return all
end

local function read_ids()
  for line in io.lines(os.getenv("CALL_IDS") .. "." .. number) do ids[#ids + 1] = line end
end

-- What stands before and after the part of a call that varies.
local function around_gap(method, before, after, body)
  local request = wrk.format(method, before .. "@" .. after, headers(), body)
  local first, last = request:match("^([^@]*)@(.*)$")
  return first, last
end

local function take_id()
  used = used + 1
  if used > #ids and CHANGES[call] and not repeats then
    ran_out = 1
    wrk.thread:stop()
  end
  return ids[(used - 1) % #ids + 1]
end

local function any_user() return "u" .. math.random(USERS) end

function setup(thread)
  thread:set("number", #threads)
  threads[#threads + 1] = thread
end

function init()
  local sku = os.getenv("CALL_SKU") or "demo"
  call = os.getenv("CALL")
  math.randomseed(os.time() * 1000 + number)
  local varying = {
    look_up = { "GET", "/order/", "", take_id },
    user_orders = { "GET", "/user/", "/orders?sku=" .. sku, any_user },
  }
  for name, change in pairs(CHANGES) do
    varying[name] = { "POST", "/order/", change[1], take_id, change[2] }
  end
  local same = { stock = "/stock/" .. sku, listing = "/admin/orders?sku=" .. sku,
    metrics = "/metrics" }
  if varying[call] == nil then
    fixed = wrk.format("GET", same[call], headers())
    return
  end
  local method, before, after, choose, body = (table.unpack or unpack)(varying[call])
  if call == "extend" then -- to longer than any order is reserved before
    body = os.date('!{"expires_at":"%Y-%m-%dT%H:%M:%SZ"}', os.time() + 7200)
  end
  local first, last = around_gap(method, before, after, body)
  if choose == take_id then read_ids() end
  request = function() return first .. choose() .. last end
end

function request() return fixed end

local function counted()
  local threads_out = 0
  for _, thread in ipairs(threads) do threads_out = threads_out + thread:get("ran_out") end
  return string.format(',"ran_out":%d', threads_out)
end

done = dofile((os.getenv("LOAD_TOOLS") or "loadtest/tools") .. "/report.lua")(counted)

-- Sends one kind of call as fast as wrk can and ends with one line of JSON: the figures of the run.
--
-- Environment:
--   CALL        look_up, stock, pay, cancel, user_orders, listing or metrics
--   CALL_SKU    the sale                                                      (demo)
--   CALL_IDS    path prefix: thread N reads ids of orders from PREFIX.N, one a line
--   CALL_REPEAT set: pay and cancel begin anew when they have used all ids
--   CALL_TOKEN  for calls that want a bearer's token
--   LOAD_TOOLS  the folder of this script                                     (loadtest/tools)
--
-- Pay and cancel use each id once: a repeat would be answered without doing anything. When a
-- thread has used all of its ids it stops, unless it may repeat them, and `ran_out` says so.
-- Answers are not looked at; wrk counts those with a status of 400 or more.

local ONCE = { pay = true, cancel = true }
local USERS = 10000000 -- as many as order.lua's

local threads = {}
local ids, used, repeats, call, fixed = {}, 0, os.getenv("CALL_REPEAT"), nil, nil

ran_out = 0

local function headers()
  local token = os.getenv("CALL_TOKEN")
  return token and { ["Authorization"] = "Bearer " .. token } or {}
end

local function read_ids()
  for line in io.lines(os.getenv("CALL_IDS") .. "." .. number) do ids[#ids + 1] = line end
end

-- What stands before and after the part of a call that varies.
local function around_gap(method, before, after)
  local request = wrk.format(method, before .. "@" .. after, headers(),
    method == "POST" and "" or nil)
  local first, last = request:match("^([^@]*)@(.*)$")
  return first, last
end

local function take_id()
  used = used + 1
  if used > #ids and ONCE[call] and not repeats then
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
    pay = { "POST", "/order/", "/pay", take_id },
    cancel = { "POST", "/order/", "/cancel", take_id },
    user_orders = { "GET", "/user/", "/orders?sku=" .. sku, any_user },
  }
  local same = { stock = "/stock/" .. sku, listing = "/admin/orders?sku=" .. sku,
    metrics = "/metrics" }
  if varying[call] == nil then
    fixed = wrk.format("GET", same[call], headers())
    return
  end
  local method, before, after, choose = (table.unpack or unpack)(varying[call])
  local first, last = around_gap(method, before, after)
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

-- Posts random orders with wrk; counts every answer and writes down every order id it was given.
-- Arguments after wrk's own: prefix=FILE skus=a,b qty_min=1 qty_max=5 stop_after=300 delay_ms=0
-- users=1000
-- Each thread writes FILE.N, line by line: "201 ORDER_ID QTY" or "503 ORDER_ID" (outcome unknown).

local threads = {}

function setup(thread)
  thread:set("number", #threads)
  table.insert(threads, thread)
end

function init(args)
  options = {}
  for _, arg in ipairs(args) do
    local name, value = arg:match("^([%w_]+)=(.*)$")
    if name then options[name] = tonumber(value) or value end
  end
  skus = {}
  for sku in options.skus:gmatch("[^,]+") do table.insert(skus, sku) end
  math.randomseed(os.time() * 1000 + number * 7919)
  answers, refused_in_row, stopped = {}, 0, false
  out = assert(io.open(options.prefix .. "." .. number, "w"))
  out:setvbuf("line")
  wrk.method = "POST"
  wrk.headers["Content-Type"] = "application/json"
  if options.delay_ms > 0 then
    function delay() return math.random(options.delay_ms) end
  end
end

function request()
  local body = string.format('{"sku":"%s","user_id":"u%d","qty":%d}', skus[math.random(#skus)],
                             math.random(options.users),
                             math.random(options.qty_min, options.qty_max))
  return wrk.format(nil, "/order", nil, body)
end

-- wrk sleeps to its end whatever its threads do, but heeds an interrupt.
local function stop_wrk()
  local ffi = require("ffi")
  ffi.cdef("int kill(int pid, int number); int getpid(void);")
  ffi.C.kill(ffi.C.getpid(), 2)
  stopped = true
end

function response(status, headers, body)
  local code = body:match('"code":%s*"([%w_]+)"')
  local answer = code and (status .. " " .. code) or tostring(status)
  answers[answer] = (answers[answer] or 0) + 1
  local order_id = body:match('"order_id":%s*"(%d+)"')
  if status == 201 then
    out:write("201 ", order_id or "none", " ", body:match('"qty":%s*(%d+)') or "none", "\n")
  elseif order_id then
    out:write(status, " ", order_id, "\n")
  end
  refused_in_row = answer == "409 sold_out" and refused_in_row + 1 or 0
  if refused_in_row >= options.stop_after and not stopped then stop_wrk() end
end

function done(summary, latency)
  print("slowest", "us", latency.max)
  for _, thread in ipairs(threads) do
    for answer, count in pairs(thread:get("answers")) do
      print("answer", answer, count)
    end
  end
  for kind, count in pairs(summary.errors) do print("error", kind, count) end
end

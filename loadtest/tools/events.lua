-- Readers that follow the feed of events; wrk runs one thread and one connection for each. Ends
-- with one line of JSON: the figures of the run, with the number of events that all of them read.
--
-- Environment:
--   CALL_TOKEN  for a service with a shop token
--   LOAD_TOOLS  the folder of this script  (loadtest/tools)

local PATH = "/events?limit=1000&wait_s=5&after="

local threads = {}
local headers = {}
local cursor = "end"

first, last = 0, 0 -- positions

function setup(thread)
  threads[#threads + 1] = thread
end

function init()
  local token = os.getenv("CALL_TOKEN")
  if token then headers["Authorization"] = "Bearer " .. token end
end

function request()
  return wrk.format("GET", PATH .. cursor, headers)
end

-- The cursor ends the answer.
function response(status, _, body)
  local found = status == 200 and body:match('"next":"(%d+)"', -40)
  if not found then return end
  if cursor == "end" then first = tonumber(found) end
  cursor, last = found, tonumber(found)
end

local function counted()
  local events = 0
  for _, thread in ipairs(threads) do events = events + thread:get("last") - thread:get("first") end
  return string.format(',"events":%d', events)
end

done = dofile((os.getenv("LOAD_TOOLS") or "loadtest/tools") .. "/report.lua")(counted)

-- The line of JSON in which every script of wrk ends. A script that counts more, by thread, gives a
-- function that returns more members, each with a comma before it.

local LINE = '{"requests":%d,"duration_s":%.6f,"p50_ms":%.3f,"p90_ms":%.3f,"p99_ms":%.3f,' ..
  '"p999_ms":%.3f,"max_ms":%.3f,"errors":{"status":%d,"connect":%d,"read":%d,"write":%d,' ..
  '"timeout":%d}%s}\n'

return function(more)
  return function(summary, latency)
    local errors = summary.errors
    io.write(string.format(LINE, summary.requests, summary.duration / 1e6,
      latency:percentile(50) / 1e3, latency:percentile(90) / 1e3, latency:percentile(99) / 1e3,
      latency:percentile(99.9) / 1e3, latency.max / 1e3, errors.status, errors.connect,
      errors.read, errors.write, errors.timeout, more and more() or ""))
  end
end

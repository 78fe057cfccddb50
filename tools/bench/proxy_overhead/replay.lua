-- wrk script: POST the bodies of a pool file one after the other; print one JSON line with the result.
-- Arguments after `--`: pool file, number of requests after which to print LIMIT (0: never).
local requests, position, sent, limit = {}, 0, 0, 0

function init(args)
  local pool = assert(io.open(args[1], "rb"))
  limit = tonumber(args[2])
  local headers = { ["Content-Type"] = "application/json" }
  while true do
    local length = pool:read("*l")
    if not length then break end
    requests[#requests + 1] = wrk.format("POST", "/v1/chat/completions", headers, pool:read(tonumber(length)))
  end
  pool:close()
end

function request()
  position = position % #requests + 1
  sent = sent + 1
  if sent == limit then
    io.write("LIMIT\n")
    io.flush()
  end
  return requests[position]
end

function done(summary, latency)
  local errors = summary.errors
  io.write(string.format(
    'RESULT {"requests": %d, "seconds": %.6f, "p50_us": %d, "p99_us": %d, "errors": %d}\n',
    summary.requests, summary.duration / 1e6, latency:percentile(50), latency:percentile(99),
    errors.connect + errors.read + errors.write + errors.status + errors.timeout))
end

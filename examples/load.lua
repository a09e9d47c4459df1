-- For wrk: asks for one page, checks every answer, and prints what happened as one
-- line of JSON. Run it with one thread (-t 1).
--
-- wrk 4.1 puts what it had of an answer's body when a connection broke before the
-- next answer's. Applications it loads while workers are killed must therefore send
-- a Content-Length: their short body then arrives whole or not at all.
local answer = "^Hello, /load! Visit %d+, served by (%d+)%.\n$"
local threads = {}

wrk.path = "/load"

function setup(thread)
   table.insert(threads, thread)
end

function init()
   wrong, workers, seen, example = 0, 0, {}, ""
end

function response(status, headers, body)
   local worker = body:match(answer)
   if status ~= 200 or not worker then
      wrong = wrong + 1
      example = status .. " " .. body
   elseif not seen[worker] then
      seen[worker] = true
      workers = workers + 1
   end
end

function done(summary, latency)
   local example = threads[1]:get("example"):gsub('[%c"\\]', function(c)
      return ("\\u%04x"):format(c:byte())
   end)
   local report = '{"requests":%d,"wrong":%d,"workers":%d,"not_2xx":%d,"connect_errors":%d,' ..
      '"read_errors":%d,"write_errors":%d,"timeouts":%d,"p50_us":%d,"p99_us":%d,"wrong_answer":"%s"}\n'
   local errors = summary.errors
   io.write(report:format(summary.requests, threads[1]:get("wrong"), threads[1]:get("workers"), errors.status,
      errors.connect, errors.read, errors.write, errors.timeout, latency:percentile(50), latency:percentile(99), example))
end

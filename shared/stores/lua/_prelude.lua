-- Put before every script. Time is the server's; JSON is opaque: what a script decides by is a hash field.
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

local TERMINAL = {done = true, failed = true, cancelled = true, dead = true}

-- Record n entries, ARGV[from .. from+n-1], in the journal; ids count from 1 within the job.
local function record(job, journal, from, n)
  local seq = tonumber(redis.call('HGET', job, 'seq') or '0')
  for i = from, from + n - 1 do
    seq = seq + 1
    redis.call('XADD', journal, seq .. '-0', 't', string.format('%.0f', now), 'r', ARGV[i])
  end
  redis.call('HSET', job, 'seq', seq)
  return seq
end

-- Push the job's Celery message and note when. \1 and \2 stand for what must be new at each push: JSON never holds raw
-- control characters, so they cannot be in the text itself.
local function push(id, job, queue, index)
  local sends = redis.call('HINCRBY', job, 'sends', 1)
  local stamp = string.format('%.0f', now)
  local message = redis.call('HGET', job, 'message')
  message = string.gsub(message, '\1', tostring(sends))
  message = string.gsub(message, '\2', stamp)
  redis.call('HSET', job, 'status', 'queued', 'enqueued_ms', stamp)
  redis.call('ZADD', index, now, id)
  redis.call('SADD', 'ekiden:queues', queue)   -- keys.QUEUES; a test holds the two together
  redis.call('LPUSH', queue, message)
end

-- Does this fence still own the running leg? Answers nil when it does, else what the caller is told. A commit that was
-- carried out already (its reply was lost) is told its verdict again.
local function refusal(job, fence, leg, commit)
  local h = redis.call('HMGET', job, 'status', 'fence', 'leg', 'commit:' .. leg)
  if commit ~= '' and h[4] and string.sub(h[4], 1, #commit + 1) == commit .. ' ' then
    return {string.sub(h[4], #commit + 2)}
  end
  if not h[1] then return {'gone'} end
  if h[1] ~= 'running' or h[2] ~= fence or h[3] ~= leg then return {'fenced'} end
  return nil
end

local function settle(job, leg, commit, verdict)
  redis.call('HSET', job, 'commit:' .. leg, commit .. ' ' .. verdict)
  return {verdict}
end

-- Keep everything that an unfinished job needs.
local function keep(ttl, ...)
  for _, key in ipairs({...}) do redis.call('EXPIRE', key, ttl) end
end

-- The one end of every job, whoever causes it. ARGV[at] status, +1 reason, +2 result, +3 number of session messages,
-- +4 the messages, then the journal record.
local function finish(id, job, journal, session, messages, leases, timers, index, at, ttl)
  local n = tonumber(ARGV[at + 3])
  local seq = record(job, journal, at + 4 + n, 1)
  for i = at + 4, at + 3 + n do redis.call('XADD', messages, '*', 'job', id, 'm', ARGV[i]) end
  redis.call('HSET', job, 'status', ARGV[at], 'reason', ARGV[at + 1], 'result', ARGV[at + 2], 'ended_ms', string.format('%.0f', now))
  redis.call('HDEL', job, 'message', 'owner', 'lease_ms')
  redis.call('ZREM', leases, id)
  redis.call('ZREM', timers, id)
  redis.call('ZREM', index, id)
  keep(ttl, session, messages, job, journal)
  return seq
end

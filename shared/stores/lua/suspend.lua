-- Give the lease up until a timer wakes the leg, or its children, which are begun here: one step. A child that exists is
-- only waited for. Waiting is no failed attempt: it is refunded.
-- KEYS job, journal, blobs, session, messages, inbox, state, catalog
-- ARGV id, fence, leg, seq, commit, cause, delay ms, need, n, variables..., n children, ten of each child (see below)...,
--      records...
local id, job = ARGV[1], KEYS[1]
local no = refusal(job, ARGV[2], ARGV[3], ARGV[4], ARGV[5])
if no then return no end
local h = redis.call('HMGET', job, 'cancel', 'ttl', 'attempts', 'cwd', 'catalog', 'depth', 'agent')
if h[1] then return {'cancelled', h[1]} end

local prefix, pending, joined = string.sub(job, 1, #job - #id), pending_of(job), 0

local function begin(at)
  local child_id, child = ARGV[at], prefix .. ARGV[at]
  local journal = string.gsub(child, ':job:', ':journal:', 1)
  redis.call('HSET', child, 'v', redis.call('HGET', job, 'v'), 'leg', 1, 'handoff', ARGV[at + 1], 'context', ARGV[at + 2],
    'queue', ARGV[at + 3], 'message', ARGV[at + 4], 'summary', ARGV[at + 5], 'agent', ARGV[at + 6], 'cwd', h[4] or '',
    'catalog', h[5] or '', 'fence', 0, 'attempts', 0, 'seq', 0, 'depth', tonumber(h[6]) + 1, 'used_ms', 0, 'ttl', h[2],
    'created_ms', whole(wall), 'parent', id, 'came_from', h[7], 'visits:' .. ARGV[at + 6], 1)
  record(child, journal, at + 8, at + 9)
  enlist(DEADLINES, child_id, ARGV[at + 7])
  push(child_id, child)
  keep(h[2], child, journal, (string.gsub(child, ':job:', ':blobs:', 1)))
end

-- A child: id, handoff id, context, queue, message, summary, agent, deadline ms, and its first two records.
local count = set_state(KEYS[7], 9)
local first = count + 1 + 10 * tonumber(ARGV[count])
record(job, KEYS[2], first, #ARGV)
for at = count + 1, first - 1, 10 do
  local status = redis.call('HGET', prefix .. ARGV[at], 'status')
  if not status then begin(at) end
  if not TERMINAL[status] then redis.call('SADD', pending, ARGV[at]) end
  if status == 'done' then joined = joined + 1 end
end
suspend(id, job, ARGV[6])
redis.call('HSET', job, 'attempts', math.max(0, h[3] - 1))
redis.call('ZREM', LEASES, id)
keep(h[2] + math.ceil(ARGV[7] / 1000), pending, unpack(KEYS))
if first > count + 1 then
  redis.call('HSET', job, 'need', ARGV[8], 'joined', joined)
  join(id, job)
else
  enlist(TIMERS, id, ARGV[7])
end
return settle(job, ARGV[3], ARGV[5], 'ok')

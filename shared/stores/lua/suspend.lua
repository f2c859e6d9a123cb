-- Give the lease up until a timer wakes the leg, or its children, which are begun here: one step. A child that exists is
-- only waited for. Waiting is no failed attempt: it is refunded.
-- KEYS job, journal, blobs, session, messages, inbox, state, catalog
-- ARGV id, fence, leg, seq, commit, cause, delay_ms, need, variables..., children..., records...
local no = refusal(job, fence, leg, seq, commit)
if no then return no end
local h = redis.call('HMGET', job, 'cancel', 'ttl', 'attempts', 'cwd', 'catalog', 'depth', 'agent')
if h[1] then return {'cancelled', h[1]} end

local prefix, pending, joined = string.sub(job, 1, #job - #id), pending_of(job), 0

local function begin(at)
  local child_id, handoff, context, queue, message, summary, agent, deadline_ms = unpack(ARGV, at, at + 7)
  local child = prefix .. child_id
  local journal = string.gsub(child, ':job:', ':journal:', 1)
  redis.call('HSET', child, 'v', redis.call('HGET', job, 'v'), 'leg', 1, 'handoff', handoff, 'context', context,
    'queue', queue, 'message', message, 'summary', summary, 'agent', agent, 'cwd', h[4] or '', 'catalog', h[5] or '',
    'fence', 0, 'attempts', 0, 'seq', 0, 'depth', tonumber(h[6]) + 1, 'used_ms', 0, 'ttl', h[2], 'created_ms', whole(wall),
    'parent', id, 'came_from', h[7], 'visits:' .. agent, 1)
  record(child, journal, {from = at + 8, to = at + 9})
  enlist(DEADLINES, child_id, deadline_ms)
  push(child_id, child)
  keep(h[2], child, journal, (string.gsub(child, ':job:', ':blobs:', 1)))
end

set_state(state, variables)
record(job, journal, records)
for at = children.from, children.to, 10 do   -- of each what begin() takes, and its first two records
  local status = redis.call('HGET', prefix .. ARGV[at], 'status')
  if not status then begin(at) end
  if not TERMINAL[status] then redis.call('SADD', pending, ARGV[at]) end
  if status == 'done' then joined = joined + 1 end
end
suspend(id, job, cause)
redis.call('HSET', job, 'attempts', math.max(0, h[3] - 1))
redis.call('ZREM', LEASES, id)
keep(h[2] + math.ceil(delay_ms / 1000), pending, unpack(KEYS))
if children.to >= children.from then
  redis.call('HSET', job, 'need', need, 'joined', joined)
  join(id, job)
else
  enlist(TIMERS, id, delay_ms)
end
return settle(job, leg, commit, 'ok')

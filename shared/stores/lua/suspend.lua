-- Give the lease up until a timer wakes the leg, or its children, which are begun here, or answers to approvals, which are
-- asked here: one step. A child that exists is only waited for. Waiting is no failed attempt: it is refunded. used_ms: ''
-- where no record is progress.
-- KEYS job, journal, blobs, session, messages, older_messages, inbox, state, catalog, root
-- ARGV id, fence, leg, seq, commit, is_untrusted, tokens, micro_usd, turns, used_ms, cause, delay_ms, need, used..., variables...,
--      children..., approvals..., records...
local this = read(id, job, FENCED, PUSHED, BUDGET, 'v', 'ttl', 'attempts', 'cwd', 'catalog', 'agent', 'need', 'joined',
  'used_ms', 'commit:' .. leg)
local no = repeated(this, leg, commit) or refusal(this, fence, leg, seq)
if no then return no end
if this.cancel then return {'cancelled', this.cancel} end

-- Of each child: what begin() takes, how many arguments its counts are and how many its records, then those.
local function each_child(see)
  local at = children.from
  while at <= children.to do
    local counts, count = tonumber(ARGV[at + 11]), tonumber(ARGV[at + 12])
    see(ARGV[at], at, {from = at + 13, to = at + 12 + counts}, {from = at + 13 + counts, to = at + 12 + counts + count})
    at = at + 13 + counts + count
  end
end

local function begin(child, at, counts, entries)
  local _, handoff, context, queue, message, summary, agent, deadline_ms, depth, there, origin = unpack(ARGV, at, at + 10)
  local journal = string.gsub(child.key, ':job:', ':journal:', 1)
  put(child, 'v', this.v, 'leg', there, 'handoff', handoff, 'context', context, 'queue', queue, 'message', message,
    'summary', summary, 'agent', agent, 'cwd', this.cwd or '', 'catalog', this.catalog or '', 'fence', 0, 'attempts', 0,
    'depth', depth, 'used_ms', 0, 'ttl', this.ttl, 'kept_ms', stamp, 'created_ms', stamp, 'parent', id,
    'came_from', origin)
  for i = counts.from, counts.to, 2 do put(child, ARGV[i], ARGV[i + 1]) end
  record(child, journal, entries)
  enlist(DEADLINES, child.id, deadline_ms)
  push(child)
  keep(this.ttl, child.key, journal, (string.gsub(child.key, ':job:', ':blobs:', 1)))
end

local pending, joined, has_children = pending_of(this), 0, children.to >= children.from
local purse = purse_of(this, root)
spend(this, purse, tokens, micro_usd, turns, used_ms)
account(this, purse, session, used)
distrust(this, session, is_untrusted)
set_state(state, variables, this.ttl)
record(this, journal, records)
if used_ms ~= '' then put(this, 'used_ms', used_ms, 'attempts', 0, 'given_back', 0) end
if has_children then   -- those that are not named any more are not needed
  local named = {}
  each_child(function(name) named[name] = true end)
  abandon(this, named)
end
each_child(function(name, at, counts, entries)
  local child = read(name, relative(this, name), 'seq', PUSHED)
  local status = child.status
  if not status then
    begin(child, at, counts, entries)
    count_leg(purse)
  end
  if not TERMINAL[status] then call('SADD', pending, child.id) end
  if joins(tonumber(need), status) then joined = joined + 1 end
end)
if purse ~= this then save(purse) end

local function ask(at)   -- for no longer than the job lives
  local n, digest, timeout_ms, text = unpack(ARGV, at, at + 3)
  local left, ends_with_job = listed_at(DEADLINES, id) - now, 0
  if left > 0 and left < tonumber(timeout_ms) then timeout_ms, ends_with_job = left, 1 end
  call('HSET', approvals_of(this), n, text, n .. ':digest', digest,
    n .. ':times', stamp .. ' ' .. whole(wall + timeout_ms) .. ' ' .. ends_with_job)
  enlist(APPROVALS, id .. ':' .. n, timeout_ms)
  return n
end

forget(this)
suspend(this, cause)
put(this, 'attempts', math.max(0, this.attempts - 1), 'commit:' .. leg, commit .. ' ok')
if has_children then put(this, 'need', need, 'joined', joined) end
local asked = {}
for at = approvals.from, approvals.to, 4 do asked[#asked + 1] = ask(at) end
if #asked > 0 then put(this, 'waits', table.concat(asked, ' ')) end
save(this)
keep(this.ttl + math.ceil(delay_ms / 1000), pending, unpack(KEYS))
if #asked > 0 then
  keep(this.ttl, approvals_of(this))
  await_answers(this)
elseif has_children then
  join(this)
else
  enlist(TIMERS, id, delay_ms)
end
return {'ok'}

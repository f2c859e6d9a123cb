-- Put before each script: those of these paragraphs that it uses, with the names of the indexes in them (scripts.py takes
-- them from keys.py). JSON is opaque: what a script decides by is a hash field or the score of an index.

-- Keep what was in a queue and is no message of ours, for people to look at; where that cannot be, nothing fails by it.
local function bury(queue, reason, raw)
  redis.pcall('XADD', DEAD_LETTERS, 'MAXLEN', MAX_DEAD_LETTERS, '*', 'queue', queue, 'reason', reason, 'raw', raw)
  redis.call('EXPIRE', DEAD_LETTERS, DEAD_LETTERS_TTL_S)
end

-- What an index holds; nil for any other key.
local function kind_of(key)
  local is_listed = string.sub(key, 1, #QUEUED) == QUEUED or string.sub(key, 1, #SUSPENDED) == SUSPENDED
  return (INDEXES)[key] or (is_listed and 'zset' or nil)
end

-- Make sure that the name of a queue or of an index stands for what it should, or for nothing: what else stands there
-- keeps everybody from reading and writing it. It is put aside as it is. Answers what it was, or nil.
local function clear_the_way(key)
  local kind, wanted = redis.call('TYPE', key).ok, kind_of(key) or 'list'
  if kind == wanted or kind == 'none' then return nil end
  local aside = MISPLACED .. key
  redis.call('RENAME', key, aside)
  redis.call('EXPIRE', aside, DEAD_LETTERS_TTL_S)
  local what = wanted == 'list' and 'list of messages' or wanted
  bury(key, 'a ' .. kind .. ' stood where the ' .. what .. ' should be: it was put aside as ' .. aside, '')
  return kind
end

-- `call` is for what is one job's or session's own. `redis.call` is for indexes and queues: a script that breaks off in the
-- middle has done half of it, so where that would be for what another program has written over one, the way is cleared, and
-- it goes on.
local call = redis.call
local server = redis
local redis = {pcall = server.pcall, call = function(...)
  local reply = server.pcall(...)
  if type(reply) == 'table' and reply.err then
    local _, key = ...
    if string.find(tostring(reply.err), 'WRONGTYPE') then clear_the_way(key) end
    return call(...)
  end
  return reply
end}

-- Time is the server's. Its own time (wall) is for people; indexes count in relay time (now), from which the pools take the
-- jumps of the server's clock (clock.py). Behind what they have followed it never falls, and what is far ahead of that is
-- not vouched for: the clock has jumped, or no pool runs.
local clock = redis.call('TIME')
local wall = clock[1] * 1000 + math.floor(clock[2] / 1000)
clock = redis.call('HMGET', CLOCK, 'offset_ms', 'followed_ms', 'jumps')
local ticked = wall + tonumber(clock[1] or '0')
local followed = tonumber(clock[2] or '0')
local jumps = clock[3] or '0'   -- how often the server's clock has jumped
local now = math.max(ticked, followed)
local is_vouched_for = followed == 0 or (ticked >= followed and ticked - followed <= VOUCHED_MS)

local TERMINAL = {done = true, unfinished = true, failed = true, cancelled = true, dead = true}

local function whole(number) return string.format('%.0f', number) end

local stamp = whole(wall)

-- A job (or a session) in the hands of a script: its hash is read once (`read`), decided by, and written once (`save`). What
-- it does not have is false; what was not read is an error, and never taken for what is not there.
local Hash = {__index = function(_, name) error('not read: ' .. name) end}

local function read(id, key, ...)
  local names, values = {...}, call('HMGET', key, ...)
  local hash = {id = id, key = key, changes = false, dropped = false}
  for i = 1, #names do hash[names[i]] = values[i] end
  return setmetatable(hash, Hash)
end

local function put(hash, ...)
  local given, changes = {...}, hash.changes
  for i = 1, #given, 2 do hash[given[i]] = given[i + 1] end
  if not changes then
    hash.changes = given
    return
  end
  local count = #changes
  for i = 1, #given do changes[count + i] = given[i] end
end

local function drop(hash, ...)
  hash.dropped = hash.dropped or {}
  for _, name in ipairs({...}) do
    hash[name] = false
    table.insert(hash.dropped, name)
  end
end

local function save(hash)
  if hash.changes then call('HSET', hash.key, unpack(hash.changes)) end
  if hash.dropped then call('HDEL', hash.key, unpack(hash.dropped)) end
  hash.changes, hash.dropped = false, false
end

-- List id in an index that is read by time, so many ms from now; and remember it, should that time turn out to be wrong.
local function enlist(index, id, ms)
  redis.call('ZADD', index, now + ms, id)
  if not is_vouched_for then redis.call('ZADD', UNVOUCHED, now, index .. ' ' .. id) end
end

local function listed_at(index, id) return tonumber(redis.call('ZSCORE', index, id) or '0') end

-- Does somebody own the running job? No clock but one that is vouched for can take it away.
local function is_leased(id) return not is_vouched_for or listed_at(LEASES, id) > now end

-- Keep everything that an unfinished job needs for at least ttl seconds more; never shorten.
local function keep(ttl, ...)
  for _, key in ipairs({...}) do
    local left = call('TTL', key)
    if left ~= -2 and left < tonumber(ttl) then call('EXPIRE', key, ttl) end
  end
end

-- Times to live are weeks, and looked at once an hour; earlier where a key has come since that nobody has given its own.
local function is_due(job) return math.abs(wall - (job.kept_ms or 0)) > KEEP_EVERY_MS end

local function keep_if_due(job, ttl, ...)
  if not is_due(job) then return end
  keep(ttl, ...)
  put(job, 'kept_ms', stamp)
end

-- Record entries (a list of ARGV) in the journal; ids count from 1 within the job.
local function record(job, journal, entries)
  local seq = tonumber(job.seq or 0)
  for i = entries.from, entries.to do
    seq = seq + 1
    call('XADD', journal, seq .. '-0', 't', stamp, 'r', ARGV[i])
  end
  put(job, 'seq', seq)
  return seq
end

-- Let the job wait without a worker, listed with its cause; resume takes it off that list, whatever comes next.
local function suspend(job, cause)
  put(job, 'status', 'suspended', 'cause', cause)
  enlist(SUSPENDED .. cause, job.id, 0)
end

local function resume(job)
  if not job.cause then return end
  redis.call('ZREM', SUSPENDED .. job.cause, job.id)
  drop(job, 'cause')
end

-- Text with every mark replaced. No pattern: that looks at each character of a long text.
local function filled(text, mark, value)
  local parts, from = {}, 1
  local at = string.find(text, mark, from, true)
  while at do
    parts[#parts + 1] = string.sub(text, from, at - 1)
    parts[#parts + 1] = value
    from = at + 1
    at = string.find(text, mark, from, true)
  end
  parts[#parts + 1] = string.sub(text, from)
  return table.concat(parts)
end

-- Save the job, push its Celery message and note when. \1 and \2 stand for what must be new at each push: JSON never holds
-- raw control characters, so they cannot be in the text itself.
local function push(job)
  resume(job)
  put(job, 'status', 'queued', 'sends', (job.sends or 0) + 1)
  save(job)
  enlist(QUEUED .. job.queue, job.id, 0)
  redis.call('SADD', QUEUES, job.queue)
  local message = rawget(job, 'message') or call('HGET', job.key, 'message')
  redis.call('LPUSH', job.queue, filled(filled(message, '\1', tostring(job.sends)), '\2', whole(now)))
end

-- Take the job out of the index that would wake it: its status says which.
local function forget(job)
  local index = ({running = LEASES, suspended = TIMERS, queued = QUEUED .. (job.queue or '')})[job.status]
  if index then redis.call('ZREM', index, job.id) end
end

-- Give a request a job number in its session, which is made if it is to be new; the same number again for the same request.
-- number: the key that remembers it; what it says of a session that is gone counts for nothing.
local function reserve(its, number, is_new, user, request_ttl, policy)
  local known = call('GET', number)
  if known and its.created_ms then return {'ok', known} end
  if is_new and its.created_ms then return {'taken'} end
  if not is_new and not its.created_ms then return {'gone'} end
  if is_new then put(its, 'created_ms', stamp, 'user', user, 'policy', policy) end
  put(its, 'used_ms', stamp, 'jobs', (its.jobs or 0) + 1)
  enlist(SESSIONS, its.id, 0)
  call('SET', number, its.jobs, 'EX', request_ttl)
  return {'ok', tostring(its.jobs)}
end

-- Let the job run, or wait in the session's inbox while another one does: one root job of a session at a time. Saves both.
local function enter(job, session, inbox, in_front)
  if not session.active or session.active == job.id then
    put(session, 'active', job.id)
    save(session)
    push(job)
    return 'ok'
  end
  save(session)
  put(job, 'status', 'waiting')
  save(job)
  call(in_front and 'LPUSH' or 'RPUSH', inbox, job.id)
  return 'waiting'
end

-- The key of a job in the same session.
local function relative(job, id) return string.sub(job.key, 1, #job.key - #job.id) .. id end

-- Start the session's next waiting job, now that this one no longer runs. Jobs that were cancelled in the inbox are passed
-- over.
local function leave(job, session, inbox)
  if call('HGET', session, 'active') ~= job.id then return end
  for _ = 1, 1000 do
    local next_id = call('LPOP', inbox)
    if not next_id then break end
    local next_job = read(next_id, relative(job, next_id), PUSHED)
    if next_job.status == 'waiting' then
      call('HSET', session, 'active', next_id)
      push(next_job)
      return
    end
  end
  call('HDEL', session, 'active')
end

-- The key of the jobs that a suspended job waits for.
local function pending_of(job) return (string.gsub(job.key, ':job:', ':pending:', 1)) end

-- Stop the children that nobody waits for any more: who runs one sees the flag, the sweeper ends the others.
local function abandon(job)
  if not job.need then return end   -- it never had any
  local pending = pending_of(job)
  for _, child in ipairs(call('SMEMBERS', pending)) do
    local key = relative(job, child)
    local status = call('HGET', key, 'status')
    if status and not TERMINAL[status] then
      call('HSETNX', key, 'cancel', 'parent')
      if status == 'running' then call('PUBLISH', STOPPED, child) else enlist(DEADLINES, child, 0) end
    end
  end
  call('DEL', pending)
end

-- Save the job; wake it if what it waits for has come: all its children have ended, or as many as it needs with success.
local function join(job)
  local need, joined = tonumber(job.need or 0), tonumber(job.joined or 0)
  if call('SCARD', pending_of(job)) > 0 and (need == 0 or joined < need) then return save(job) end
  abandon(job)
  push(job)
end

-- The key of what a job asks persons. Its numbers that nobody has answered yet are the field waits, apart by spaces.
local function approvals_of(job) return (string.gsub(job.key, ':job:', ':approvals:', 1)) end

-- Nobody needs to answer any more: the job is over.
local function withdraw(job)
  if not job.waits then return end
  for n in string.gmatch(job.waits, '%d+') do
    call('HSET', approvals_of(job), n .. ':end', 'void ' .. stamp)
    redis.call('ZREM', APPROVALS, job.id .. ':' .. n)
  end
  drop(job, 'waits')
end

-- Let the first of those approvals that expires ring the job's timer.
local function await_answers(job)
  local first
  for n in string.gmatch(job.waits, '%d+') do
    local at = listed_at(APPROVALS, job.id .. ':' .. n)
    first = math.min(first or at, at)
  end
  enlist(TIMERS, job.id, first - now)
end

-- Tell the job that waits for this one, if one does, that it has ended.
local function report(job, status)
  if not job.parent then return end
  local parent = read(job.parent, relative(job, job.parent), 'need', 'joined', PUSHED)
  if call('SREM', pending_of(parent), job.id) == 0 then return end
  if status == 'done' then put(parent, 'joined', (parent.joined or 0) + 1) end
  join(parent)
end

-- Write session variables: a list of ARGV, name and JSON of each ('': away with it).
local function set_state(state, variables, ttl)
  for i = variables.from, variables.to, 2 do
    if ARGV[i + 1] == '' then call('HDEL', state, ARGV[i]) else call('HSET', state, ARGV[i], ARGV[i + 1]) end
  end
  if variables.to > variables.from then keep(ttl, state) end
end

-- The job that counts what all jobs below one root use up: this one itself, if it is the root.
local function purse_of(job, root) return root == job.key and job or read('', root, 'status', BUDGET) end

-- Count what steps have spent for the job that counts it all (purse): it is decided by, and counted if that is saved.
local function spend(purse, tokens, micro_usd)
  if not purse.status or (tokens == '0' and micro_usd == '0') then return end
  put(purse, 'spent_tokens', (purse.spent_tokens or 0) + tokens, 'spent_micro', (purse.spent_micro or 0) + micro_usd)
end

-- Note that a job has read text of unknown authors. Its session remembers: what was said there is read by the jobs that follow.
local function distrust(job, session, is_untrusted)
  if is_untrusted ~= '1' then return end
  put(job, 'untrusted', 1)
  call('HSET', session, 'untrusted', 1)
end

-- Which budget of the root job is used up, if one is.
local function used_up(purse)
  if purse.max_tokens and tonumber(purse.spent_tokens or 0) >= tonumber(purse.max_tokens) then return 'tokens' end
  if purse.max_micro and tonumber(purse.spent_micro or 0) >= tonumber(purse.max_micro) then return 'cost' end
  return ''
end

-- What a claim may write with: counted, so that people see the order, and drawn by who claimed (the owner), because a
-- server that went back in time counts to the same number again for another worker.
local function fence_of(count, owner) return (count or '') .. '.' .. (owner or '') end

-- Does this fence still own the running leg (the sweeper's '': has its lease run out), and is the journal where the writer
-- believes that it is? Answers nil when both are so, else what the caller is told. The position matters because a server can
-- go back in time: a writer that remembers more than the server does would leave a hole.
local function refusal(job, fence, leg, seq)
  if not job.status then return {'gone'} end
  if fence == '' then
    if TERMINAL[job.status] then return {'finished'} end
    if job.leg ~= leg or job.status ~= 'running' or is_leased(job.id) then return {'stale'} end
  elseif job.status ~= 'running' or fence_of(job.fence, job.owner) ~= fence or job.leg ~= leg then
    return {'fenced'}
  end
  if job.seq ~= seq then return {'moved'} end
  return nil
end

-- A commit that was carried out already (its reply was lost) is told its verdict again, from a field of the leg.
local function repeated(job, leg, commit)
  local told = job['commit:' .. leg]
  if commit ~= '' and told and string.sub(told, 1, #commit + 1) == commit .. ' ' then return {string.sub(told, #commit + 2)} end
end

-- Say ARGV[from .. to] in the session, behind what was said. A row is lines: its number, time and job; the agent that the
-- user named, or nothing; each agent that had control of the job; the message, whose JSON is one line.
local function tell(messages, job, from, to)
  local agents, fields = {}, call('HKEYS', job.key)
  for i = 1, #fields do agents[#agents + 1] = string.match(fields[i], '^visits:(.+)$') end
  local about = {stamp .. ' ' .. job.id, call('HGET', job.key, 'entry') or '', unpack(agents)}
  local count, args = call('ZCARD', messages), {}
  for i = from, to do
    count = count + 1
    args[#args + 1], args[#args + 2] = count, count .. ' ' .. table.concat(about, '\n') .. '\n' .. ARGV[i]
  end
  if #args > 0 then call('ZADD', messages, unpack(args)) end
  keep(TTL_S, messages)
end

-- The one end of every job, whoever causes it. k holds its session's keys; last come the session variables, what is said
-- in the session, and the journal's records, lists of ARGV. What is said first is the request: a job that is retried after
-- it ended does not say it again.
local function finish(job, k, status, reason, result, variables, said, records)
  set_state(k.state, variables, TTL_S)
  record(job, k.journal, records)
  if said.to >= said.from then
    tell(k.messages, job, job.said and said.from + 1 or said.from, said.to)
    put(job, 'said', 1)
  end
  forget(job)
  resume(job)
  withdraw(job)
  redis.call('ZREM', DEADLINES, job.id)
  if job.status == 'waiting' then call('LREM', k.inbox, 1, job.id) end
  put(job, 'status', status, 'reason', reason, 'result', result, 'ended_ms', stamp)
  keep_if_due(job, TTL_S, k.session, k.messages, k.older_messages, k.job, k.journal, k.blobs, k.state)
  drop(job, 'message', 'owner')
  if status == 'done' or status == 'unfinished' or status == 'cancelled' then   -- nobody can retry it: no leg will be claimed again
    drop(job, 'context', 'token', 'used_ms', 'kept_ms')
  end
  save(job)
  abandon(job)
  report(job, status)
  leave(job, k.session, k.inbox)
  redis.pcall('PUBLISH', ENDED .. job.id, status)   -- a hint: whoever may not publish ends jobs all the same
end

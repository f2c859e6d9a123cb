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

-- Stop the children that nobody waits for any more (kept: those that somebody does): who runs one sees the flag, the sweeper
-- ends the others.
local function abandon(job, kept)
  if not job.need then return end   -- it never had any
  local pending = pending_of(job)
  for _, child in ipairs(call('SMEMBERS', pending)) do
    local key = relative(job, child)
    local status = call('HGET', key, 'status')
    if status and not TERMINAL[status] and not (kept and kept[child]) then
      call('HSETNX', key, 'cancel', 'parent')
      if status == 'running' then call('PUBLISH', STOPPED, child) else enlist(DEADLINES, child, 0) end
    end
  end
  call('DEL', pending)
end

-- Does the end of a child count for what its parent needs? need: so many with success; 0: all; ANY_ENDS: one, however it
-- ends; ALL_SUCCEED: one that fails, else all; above AS_LONG_AS_THEY_CAN: so many more with success, or too few that are left.
local function joins(need, status)
  if need == ALL_SUCCEED then return TERMINAL[status] and status ~= 'done' end
  return status == 'done' or (need == ANY_ENDS and TERMINAL[status])
end

-- Save the job; wake it if what it waits for has come: all its children have ended, or as many as it needs. Those that it does
-- not need are stopped then, unless it only wanted to see the first (need below 0).
local function join(job)
  local need, joined, left = tonumber(job.need or 0), tonumber(job.joined or 0), call('SCARD', pending_of(job))
  local is_in_vain = need > AS_LONG_AS_THEY_CAN and joined + left < need - AS_LONG_AS_THEY_CAN
  if need > AS_LONG_AS_THEY_CAN then need = need - AS_LONG_AS_THEY_CAN end
  if left > 0 and (need == 0 or joined < math.max(need, 1)) and not is_in_vain then return save(job) end
  if need >= 0 and not is_in_vain then abandon(job) end
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
  if joins(tonumber(parent.need or 0), status) then put(parent, 'joined', (parent.joined or 0) + 1) end
  if parent.cause == 'children' then join(parent) else save(parent) end   -- else it was woken by another
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

-- Count what steps have spent for the job that counts it all (purse): it is decided by, and counted if that is saved. Turns
-- and time are counted where they have a limit. used_ms: what the leg has taken in all; '': as much as it had.
local function spend(job, purse, tokens, micro_usd, turns, used_ms)
  if not purse.status then return end
  if tokens ~= '0' or micro_usd ~= '0' then
    put(purse, 'spent_tokens', (purse.spent_tokens or 0) + tokens, 'spent_micro', (purse.spent_micro or 0) + micro_usd)
  end
  if purse.max_turns and turns ~= '0' then put(purse, 'spent_turns', (purse.spent_turns or 0) + turns) end
  if purse.max_ms and used_ms ~= '' then
    put(purse, 'spent_ms', (purse.spent_ms or 0) + math.max(0, used_ms - (job.used_ms or 0)))
  end
end

-- A user's field of a day's usage (keys.usage_of): what counts for a budget has no name, and stays when that is forgotten.
local function field_of(user) return 'user\0' .. server.sha1hex(user) end

-- Count a leg that begins, where their number has a limit.
local function count_leg(purse)
  if purse.status and purse.max_legs then put(purse, 'spent_legs', (purse.spent_legs or 0) + 1) end
end

-- The five counts of a row of a day's usage; what is no number is none.
local function usage_of(row)
  local counts, had = {}, string.gmatch(row or '', '%S+')
  for i = 1, 5 do counts[i] = math.max(0, tonumber(had() or '') or 0) end
  return counts
end

-- The name of a user's row in a day, and what it says; text: what the user's own says. No day is to grow for ever: users that
-- find it full share one, and so one budget, or whoever comes under ever new names would have none.
local function user_row(day, user, text, size)
  if text or size < MAX_USAGE_FIELDS then return field_of(user), text end
  return 'user\0(others)', call('HGET', day, 'user\0(others)')
end

-- What a user used on a day: tokens, millionths of a US dollar.
local function used_on(day, user)
  local key = USAGE .. whole(day)
  local own = call('HGET', key, field_of(user))
  local _, row = user_row(key, user, own, own and 0 or call('HLEN', key))
  local _, input, output, micro = unpack(usage_of(row))
  return input + output, micro
end

-- The first day of a week (which begins on Monday), or of a month, that a day is in; days count from 1970-01-01, a Thursday.
-- Months: days of the 400 years that the calendar repeats itself in, whose years begin in March ("civil_from_days").
local function first_day(per_s, day)
  if per_s == WEEK_S then return day - (day + 3) % 7 end
  local at = (day + 719468) % 146097
  local year = math.floor((at - math.floor(at / 1460) + math.floor(at / 36524) - math.floor(at / 146096)) / 365)
  local of_year = at - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  return day - of_year + math.floor((153 * math.floor((5 * of_year + 2) / 153) + 2) / 5)
end

-- What counts for the budget of an hour, a week or a month beside what a user used today: the days before; or less, what
-- had been used today when the hour was first looked at. Added up once a day, or an hour; and anew where that was done on
-- a later day, by a clock that has been set back: what the days between have come to since is not in it.
local function beside_today(per_s, user, day, tokens, micro)
  local number = per_s == HOUR_S and math.floor(wall / 3600000) or first_day(per_s, day)
  local period, name = SPENT_IN .. whole(per_s) .. ':' .. whole(number), field_of(user)
  local row = call('HGET', period, name)
  local upto, more_tokens, more_micro = string.match(row or '', '^(%d+) (%-?%d+) (%-?%d+)$')
  upto, more_tokens, more_micro = tonumber(upto), tonumber(more_tokens or 0), tonumber(more_micro or 0)
  if upto == day then return more_tokens, more_micro end
  if upto and upto > day then upto, more_tokens, more_micro = nil, 0, 0 end
  local is_kept = row or call('HLEN', period) < MAX_USAGE_FIELDS
  if per_s == HOUR_S then
    if not is_kept then return 0, 0 end
    more_tokens, more_micro = -tokens, -micro
  else
    for earlier = upto or number, day - 1 do
      local its_tokens, its_micro = used_on(earlier, user)
      more_tokens, more_micro = more_tokens + its_tokens, more_micro + its_micro
    end
  end
  if is_kept then
    call('HSET', period, name, whole(day) .. ' ' .. whole(more_tokens) .. ' ' .. whole(more_micro))
    call('EXPIRE', period, whole(2 * per_s))
  end
  return more_tokens, more_micro
end

-- What of the budgets that others share there is left to look at: the user's, of so many seconds (false: of today), and the
-- session's.
local function shared_spending(session, per_s)
  local its, found = read('', session, 'user', 'spent_tokens', 'spent_micro'), {}
  found.session_tokens, found.session_micro = its.spent_tokens or 0, its.spent_micro or 0
  local day, user = math.floor(wall / DAY_MS), its.user or ''
  found.user_tokens, found.user_micro = used_on(day, user)
  if per_s then
    local tokens, micro = beside_today(tonumber(per_s), user, day, found.user_tokens, found.user_micro)
    found.user_tokens, found.user_micro = found.user_tokens + tokens, found.user_micro + micro
  end
  return found
end

-- Count what models have used: for the session, for its user's day, and by agent, user and model (`ekiden usage`). used: of
-- each model its name, calls, tokens in and out, millionths of a US dollar, and calls whose price nobody knows. The period
-- of the job's budget is looked at before that: what an hour counts is what comes behind its first look.
local function account(job, purse, session, used)
  if used.to < used.from then return end
  local its, today = read('', session, 'user', 'spent_tokens', 'spent_micro'), math.floor(wall / DAY_MS)
  local day = USAGE .. whole(today)
  local user, sums, rows, names = its.user or '', {0, 0, 0, 0, 0}, {}, {}
  names[1] = field_of(user)
  for at = used.from, used.to, 6 do names[#names + 1] = 'row\0' .. job.agent .. '\0' .. user .. '\0' .. ARGV[at] end
  local known = call('HMGET', day, unpack(names))
  local function add(name, text, counts)
    local row = rows[name] or usage_of(text)
    for i = 1, 5 do row[i] = row[i] + counts[i] end
    rows[name] = row
  end
  local size = 0
  for number = 1, #names do size = size == 0 and not known[number] and call('HLEN', day) or size end
  for number = 2, #names do
    local at, name, text = used.from + (number - 2) * 6, names[number], known[number]
    if not text and size >= MAX_USAGE_ROWS then
      name = 'row\0(others)\0(others)\0' .. (size < MAX_USAGE_FIELDS and ARGV[at] or '(others)')
      text = call('HGET', day, name)
    end
    local counts = {unpack(ARGV, at + 1, at + 5)}
    for i = 1, 5 do sums[i] = sums[i] + counts[i] end
    add(name, text, counts)
  end
  local shared, had = user_row(day, user, known[1], size)
  if purse.max_user_per_s then
    local _, input, output, micro = unpack(usage_of(had))
    beside_today(tonumber(purse.max_user_per_s), user, today, input + output, micro)
  end
  add(shared, had, sums)
  local written = {}
  for name, row in pairs(rows) do
    for i = 1, 5 do row[i] = whole(row[i]) end
    written[#written + 1], written[#written + 2] = name, table.concat(row, ' ')
  end
  call('HSET', day, unpack(written))
  if not had then call('EXPIRE', day, USAGE_TTL_S) end
  put(its, 'spent_tokens', whole((its.spent_tokens or 0) + sums[2] + sums[3]), 'spent_micro',
    whole((its.spent_micro or 0) + sums[4]))
  save(its)
end

-- Note that a job has read text of unknown authors. Its session remembers: what was said there is read by the jobs that follow.
local function distrust(job, session, is_untrusted)
  if is_untrusted ~= '1' then return end
  put(job, 'untrusted', 1)
  call('HSET', session, 'untrusted', 1)
end

-- What has a limit in the root job, with what is spent of it and the limit: 'turns 3 10 tokens 812 1000'; a user's with the
-- seconds that it is for, unless that is a day: 'user_tokens/3600 7 9'. And whether one of them is used up.
local function spending(purse, session)
  local said, is_used_up, budgets = {}, false, {SHARED}
  local function note(name, spent, most)
    said[#said + 1] = name .. ' ' .. whole(spent) .. ' ' .. most
    is_used_up = is_used_up or tonumber(spent) >= tonumber(most)
  end
  local shared
  for _, name in ipairs(budgets) do
    local most = purse['max_' .. name]
    if most then
      local per_s = purse.max_user_per_s
      shared = shared or shared_spending(session, per_s)
      note(per_s and string.sub(name, 1, 5) == 'user_' and name .. '/' .. per_s or name, shared[name], most)
    end
  end
  for _, name in ipairs({COUNTED}) do
    local most = purse['max_' .. name]
    if most then note(name, tonumber(purse['spent_' .. name] or 0), most) end
  end
  return table.concat(said, ' '), is_used_up
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

-- A limit of calls of a model, in the hands of a script. What is used stands by the second, and is forgotten a minute later,
-- so that no minute sees more than the limit. Beside that there is a pace: some at once, a tenth of what is unused, and the
-- others evenly (two seconds' worth, since sweepers come once a second), or a burst would leave nothing to anybody for the
-- rest of the minute, and come again with the next one. false: there is no such limit.
local function limit_at(key)
  local limit = read('', key, MODEL_LIMIT)
  for _, name in ipairs({'rpm', 'tpm', 'concurrent'}) do limit[name] = tonumber(limit[name] or '') or false end
  limit.second = math.floor(now / 1000)
  limit.calls, limit.tokens = tonumber(limit.calls or 0), tonumber(limit.tokens or 0)
  limit.oldest = tonumber(limit.oldest or limit.second)
  local names, last = {}, math.min(limit.second - 61, limit.oldest + 60)
  for at = limit.oldest, last do
    names[#names + 1], names[#names + 2] = 'calls:' .. whole(at), 'tokens:' .. whole(at)
  end
  if #names > 0 then
    local used = call('HMGET', key, unpack(names))
    for i = 1, #used, 2 do
      limit.calls, limit.tokens = limit.calls - (used[i] or 0), limit.tokens - (used[i + 1] or 0)
    end
    call('HDEL', key, unpack(names))
    limit.oldest = limit.second - 60
  end
  local minutes = math.max(0, now - (limit.paced_ms or now)) / 60000
  for part, most in pairs({calls = limit.rpm, tokens = limit.tpm}) do
    if most then
      local unused, left = 1 - limit[part] / most, limit[part .. '_left']
      local burst = math.max(1, most / 30, unused * math.max(math.min(most, 10), most / 10))
      limit[part .. '_left'] = math.min(burst, left and left + most * minutes or burst)
    end
  end
  return limit
end

local function limit_save(limit)
  put(limit, 'calls', limit.calls, 'tokens', limit.tokens, 'oldest', whole(limit.oldest), 'paced_ms', whole(now))
  if limit.rpm then put(limit, 'calls_left', limit.calls_left) end
  if limit.tpm then put(limit, 'tokens_left', limit.tokens_left) end
  save(limit)
  call('EXPIRE', limit.key, LIMIT_TTL_S)
end

-- When, in ms from now, so much of what was used in the last minute is forgotten.
local function limit_frees(limit, part, excess)
  local names = {}
  for at = limit.oldest, limit.second do names[#names + 1] = part .. ':' .. whole(at) end
  local used = call('HMGET', limit.key, unpack(names))
  for i = 1, #used do
    excess = excess - (used[i] or 0)
    if excess <= 0 then return (limit.oldest + i + 60) * 1000 - now end
  end
  return 61000
end

-- Count so many calls and tokens in a second of the last minute; what is older is forgotten already.
local function limit_count(limit, second, calls, tokens)
  if tonumber(second) < limit.oldest then return end
  limit.calls, limit.tokens = limit.calls + calls, limit.tokens + tokens
  if calls ~= 0 then call('HINCRBY', limit.key, 'calls:' .. second, calls) end
  if tokens ~= 0 then call('HINCRBY', limit.key, 'tokens:' .. second, whole(tokens)) end
end

-- Free what a job holds of a limit, and never settled. What its worker had reserved counts, since it may have called; the
-- call that a job was woken for has not been made.
local function limit_release(limit, id)
  local second, size = string.match(call('HGET', limit.key .. ':held', id) or '', '^%+(%d+) (%d+)$')
  if second then
    limit_count(limit, second, -1, -size)
    if limit.rpm then limit.calls_left = limit.calls_left + 1 end
    if limit.tpm then limit.tokens_left = limit.tokens_left + size end
  end
  call('ZREM', limit.key .. ':slots', id)
  call('HDEL', limit.key .. ':held', id)
end

-- The key of a job that a script knows by its id alone.
local function key_of(id) return string.format(JOB, string.match(id, '^[^.]*'), id) end

-- The fence of the claim that holds a reservation; nil before the call that a job was woken for.
local function holder_of(held) return string.match(held or '', '^%d+ %d+ (.*)$') end

-- Does the claim that holds a reservation still own its job? The job's lease may be a later claim's, which calls another
-- model, and for hours. Of what another program has written in the job's place, nobody owns anything.
local function is_owned(id, held)
  local fence = holder_of(held)
  local job = fence and is_leased(id) and redis.pcall('HMGET', key_of(id), 'status', 'fence', 'owner')
  return job and job[1] == 'running' and fence_of(job[2], job[3]) == fence
end

-- Free the slots whose claim is over: its worker has died, or has lost the word that it is done; and those of who were woken
-- for a call and did not make it in time, whatever else they do.
local function limit_prune(limit)
  local slots, held = limit.key .. ':slots', limit.key .. ':held'
  for _, id in ipairs(call('ZRANGEBYSCORE', slots, '-inf', now)) do
    if is_owned(id, call('HGET', held, id)) then call('ZADD', slots, now + SLOT_MS, id) else limit_release(limit, id) end
  end
end

-- How long, in ms, a call of so many tokens must wait, and for which part of the limit; 0: there is room.
local function limit_wait(limit, size)
  local wait, part = 0, ''
  local function needs(ms, name)
    if ms > wait then wait, part = math.ceil(ms), name end
  end
  needs((limit.blocked_ms or 0) - now, 'blocked')
  if limit.rpm then
    if limit.calls + 1 > limit.rpm then needs(limit_frees(limit, 'calls', limit.calls + 1 - limit.rpm), 'rpm') end
    needs((1 - limit.calls_left) * 60000 / limit.rpm, 'rpm')
  end
  if limit.tpm then
    if limit.tokens + size > limit.tpm then needs(limit_frees(limit, 'tokens', limit.tokens + size - limit.tpm), 'tpm') end
    if limit.tokens_left <= 0 then needs((1 - limit.tokens_left) * 60000 / limit.tpm, 'tpm') end
  end
  if limit.concurrent and call('ZCARD', limit.key .. ':slots') >= limit.concurrent then
    limit_prune(limit)
    if call('ZCARD', limit.key .. ':slots') >= limit.concurrent then needs(SLOT_FREES_MS, 'concurrent') end
  end
  return wait, part
end

-- Reserve a call of so many tokens for a job. held: what it is known by: the second, the tokens, and the fence of who makes
-- the call; where the job is yet to be woken for it, '+' and no fence.
local function limit_hold(limit, id, size, held, for_ms)
  limit_count(limit, whole(limit.second), 1, size)
  if limit.rpm then limit.calls_left = limit.calls_left - 1 end
  if limit.tpm then limit.tokens_left = limit.tokens_left - size end
  call('HSET', limit.key .. ':held', id, held)
  call('ZADD', limit.key .. ':slots', now + for_ms, id)
  for _, part in ipairs({':held', ':slots'}) do call('EXPIRE', limit.key .. part, LIMIT_TTL_S) end
end

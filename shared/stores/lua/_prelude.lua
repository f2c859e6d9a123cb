-- Put before every script, behind the names of the indexes (scripts.py writes them from keys.py). JSON is opaque: what a
-- script decides by is a hash field or the score of an index.
-- Keep what was in a queue and is no message of ours, for people to look at; where that cannot be, nothing fails by it.
local function bury(queue, reason, raw)
  redis.pcall('XADD', DEAD_LETTERS, 'MAXLEN', MAX_DEAD_LETTERS, '*', 'queue', queue, 'reason', reason, 'raw', raw)
  redis.call('EXPIRE', DEAD_LETTERS, DEAD_LETTERS_TTL_S)
end

-- What an index holds; nil for any other key.
local function kind_of(key)
  local is_listed = string.sub(key, 1, #QUEUED) == QUEUED or string.sub(key, 1, #SUSPENDED) == SUSPENDED
  return INDEXES[key] or (is_listed and 'zset' or nil)
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

-- A script that breaks off in the middle has done half of it. Where that would be for what another program has written over
-- an index, the way is cleared, and it goes on.
local server = redis
local redis = {pcall = server.pcall, call = function(...)
  local reply = server.pcall(...)
  if type(reply) == 'table' and reply.err then
    local _, key = ...
    if string.find(tostring(reply.err), 'WRONGTYPE') and kind_of(key) then clear_the_way(key) end
    return server.call(...)
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

local TERMINAL = {done = true, failed = true, cancelled = true, dead = true}

local function whole(number) return string.format('%.0f', number) end

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
    if redis.call('TTL', key) < tonumber(ttl) then redis.call('EXPIRE', key, ttl) end
  end
end

-- Record the entries ARGV[from .. to] in the journal; ids count from 1 within the job.
local function record(job, journal, from, to)
  local seq = tonumber(redis.call('HGET', job, 'seq') or '0')
  for i = from, to do
    seq = seq + 1
    redis.call('XADD', journal, seq .. '-0', 't', whole(wall), 'r', ARGV[i])
  end
  redis.call('HSET', job, 'seq', seq)
  return seq
end

-- Let the job wait without a worker, listed with its cause; resume takes it off that list, whatever comes next.
local function suspend(id, job, cause)
  redis.call('HSET', job, 'status', 'suspended', 'cause', cause)
  redis.call('HDEL', job, 'owner')
  enlist(SUSPENDED .. cause, id, 0)
end

local function resume(id, job)
  local cause = redis.call('HGET', job, 'cause')
  if not cause then return end
  redis.call('ZREM', SUSPENDED .. cause, id)
  redis.call('HDEL', job, 'cause')
end

-- Push the job's Celery message and note when. \1 and \2 stand for what must be new at each push: JSON never holds raw
-- control characters, so they cannot be in the text itself.
local function push(id, job)
  resume(id, job)
  local sends = redis.call('HINCRBY', job, 'sends', 1)
  local h = redis.call('HMGET', job, 'message', 'queue')
  local message = string.gsub(string.gsub(h[1], '\1', tostring(sends)), '\2', whole(now))
  redis.call('HSET', job, 'status', 'queued')
  enlist(QUEUED .. h[2], id, 0)
  redis.call('SADD', QUEUES, h[2])
  clear_the_way(h[2])
  redis.call('LPUSH', h[2], message)
end

-- Take the job out of every index that would wake it.
local function forget(id, job)
  redis.call('ZREM', LEASES, id)
  redis.call('ZREM', TIMERS, id)
  redis.call('ZREM', QUEUED .. (redis.call('HGET', job, 'queue') or ''), id)
end

-- Let the job run, or wait in the session's inbox while another one does: one root job of a session at a time.
local function enter(id, job, session, inbox, in_front)
  local active = redis.call('HGET', session, 'active')
  if not active or active == id then
    redis.call('HSET', session, 'active', id)
    push(id, job)
    return 'ok'
  end
  redis.call('HSET', job, 'status', 'waiting')
  redis.call(in_front and 'LPUSH' or 'RPUSH', inbox, id)
  return 'waiting'
end

-- Start the session's next waiting job, now that id no longer runs. Jobs that were cancelled in the inbox are passed over.
local function leave(id, job, session, inbox)
  if redis.call('HGET', session, 'active') ~= id then return end
  redis.call('HDEL', session, 'active')
  local prefix = string.sub(job, 1, #job - #id)
  for _ = 1, 1000 do
    local next_id = redis.call('LPOP', inbox)
    if not next_id then return end
    if redis.call('HGET', prefix .. next_id, 'status') == 'waiting' then
      redis.call('HSET', session, 'active', next_id)
      push(next_id, prefix .. next_id)
      return
    end
  end
end

-- The key of the jobs that a suspended job waits for.
local function pending_of(job) return (string.gsub(job, ':job:', ':pending:', 1)) end

-- Stop the children that nobody waits for any more: who runs one sees the flag, the sweeper ends the others.
local function abandon(id, job)
  local pending, prefix = pending_of(job), string.sub(job, 1, #job - #id)
  for _, child in ipairs(redis.call('SMEMBERS', pending)) do
    local status = redis.call('HGET', prefix .. child, 'status')
    if status and not TERMINAL[status] then
      redis.call('HSETNX', prefix .. child, 'cancel', 'parent')
      if status == 'running' then redis.call('PUBLISH', STOPPED, child) else enlist(DEADLINES, child, 0) end
    end
  end
  redis.call('DEL', pending)
end

-- Wake the job if what it waits for has come: all its children have ended, or as many as it needs with success.
local function join(id, job)
  local h = redis.call('HMGET', job, 'need', 'joined')
  local need, joined = tonumber(h[1] or '0'), tonumber(h[2] or '0')
  if redis.call('SCARD', pending_of(job)) > 0 and (need == 0 or joined < need) then return end
  abandon(id, job)
  push(id, job)
end

-- Tell the job that waits for this one, if one does, that it has ended.
local function report(id, job, status)
  local parent = redis.call('HGET', job, 'parent')
  if not parent then return end
  local parent_job = string.sub(job, 1, #job - #id) .. parent
  if redis.call('SREM', pending_of(parent_job), id) == 0 then return end
  if status == 'done' then redis.call('HINCRBY', parent_job, 'joined', 1) end
  join(parent, parent_job)
end

-- Write session variables: ARGV[at] says how many, then name and JSON of each ('': away with it). Answers the next place.
local function set_state(state, at)
  local behind = at + 1 + 2 * tonumber(ARGV[at])
  for i = at + 1, behind - 2, 2 do
    if ARGV[i + 1] == '' then redis.call('HDEL', state, ARGV[i]) else redis.call('HSET', state, ARGV[i], ARGV[i + 1]) end
  end
  if behind > at + 1 then keep(TTL_S, state) end
  return behind
end

-- Which budget of the root job is used up, if one is.
local function used_up(root)
  local h = redis.call('HMGET', root, 'max_tokens', 'spent_tokens', 'max_micro', 'spent_micro')
  if h[1] and tonumber(h[2] or '0') >= tonumber(h[1]) then return 'tokens' end
  if h[3] and tonumber(h[4] or '0') >= tonumber(h[3]) then return 'cost' end
  return ''
end

-- What a claim may write with: counted, so that people see the order, and drawn by who claimed (the owner), because a
-- server that went back in time counts to the same number again for another worker.
local function fence_of(count, owner) return (count or '') .. '.' .. (owner or '') end

-- Does this fence still own the running leg (the sweeper's '': has its lease run out), and is the journal where the writer
-- believes that it is? Answers nil when both are so, else what the caller is told. A commit that was carried out already
-- (its reply was lost) is told its verdict again. The position matters because a server can go back in time: a writer that
-- remembers more than the server does would leave a hole.
local function refusal(job, fence, leg, seq, commit)
  local h = redis.call('HMGET', job, 'status', 'fence', 'leg', 'commit:' .. leg, 'seq', 'owner')
  if commit ~= '' and h[4] and string.sub(h[4], 1, #commit + 1) == commit .. ' ' then
    return {string.sub(h[4], #commit + 2)}
  end
  if not h[1] then return {'gone'} end
  if fence == '' then
    if TERMINAL[h[1]] then return {'finished'} end
    if h[3] ~= leg or h[1] ~= 'running' or is_leased(string.match(job, '[^:]+$')) then return {'stale'} end
  elseif h[1] ~= 'running' or fence_of(h[2], h[6]) ~= fence or h[3] ~= leg then
    return {'fenced'}
  end
  if h[5] ~= seq then return {'moved'} end
  return nil
end

local function settle(job, leg, commit, verdict)
  redis.call('HSET', job, 'commit:' .. leg, commit .. ' ' .. verdict)
  return {verdict}
end

-- The one end of every job, whoever causes it. k holds its session's keys; ARGV[at] is the status, +1 the reason, +2 the
-- result, +3 the session variables; then how many session messages follow, those, and the journal's records to the end.
-- The first message is the request: a job that is retried after it ended does not say it again.
local function finish(id, k, at)
  local said = set_state(k.state, at + 3)
  local first = said + 1 + tonumber(ARGV[said])
  record(k.job, k.journal, first, #ARGV)
  local new = redis.call('HEXISTS', k.job, 'said') == 1 and said + 2 or said + 1
  for i = new, first - 1 do redis.call('XADD', k.messages, '*', 'job', id, 'm', ARGV[i]) end
  if first > said + 1 then redis.call('HSET', k.job, 'said', 1) end
  forget(id, k.job)
  resume(id, k.job)
  redis.call('ZREM', DEADLINES, id)
  if redis.call('HGET', k.job, 'status') == 'waiting' then redis.call('LREM', k.inbox, 1, id) end
  redis.call('HSET', k.job, 'status', ARGV[at], 'reason', ARGV[at + 1], 'result', ARGV[at + 2], 'ended_ms', whole(wall))
  redis.call('HDEL', k.job, 'message', 'owner')
  keep(TTL_S, k.session, k.messages, k.job, k.journal, k.blobs, k.state)
  abandon(id, k.job)
  report(id, k.job, ARGV[at])
  leave(id, k.job, k.session, k.inbox)
  redis.pcall('PUBLISH', ENDED .. id, ARGV[at])   -- a hint: whoever may not publish ends jobs all the same
end

-- The keys of the scripts that end a job.
local function ending_keys()
  return {job = KEYS[1], journal = KEYS[2], blobs = KEYS[3], session = KEYS[4], messages = KEYS[5], inbox = KEYS[6],
    state = KEYS[7]}
end

-- Begin a job behind steps that another one has recorded (records, with what is this job's own behind them), in a session
-- of its own, and push the message of the leg that goes on. The same fork again changes nothing.
-- KEYS job, journal, blobs, session, messages, older_messages, inbox, state, number, catalog, origin_blobs
-- ARGV id, session_id, count, user, policy, title, session_entry, first_agent, session_untrusted, is_untrusted, leg, agent,
--      came_from, handoff, context, queue, message, digest, depth, summary, cwd, entry, version, request, request_ttl, asked,
--      deadline_s, counts..., limits..., variables..., said..., records...
local its = read(session_id, session, NUMBERED, 'active')
local this = read(id, job, 'v', 'request', 'asked', 'seq', PUSHED)
if this.v then return {(this.request == request and this.asked == asked) and 'exists' or 'another'} end
if its.created_ms then return {'taken'} end
if digest ~= '' and call('EXISTS', catalog) == 0 then return {'gone'} end

local ttl = TTL_S + tonumber(deadline_s)
put(its, 'created_ms', stamp, 'used_ms', stamp, 'jobs', count, 'user', user, 'policy', policy, 'title', title,
  'entry', session_entry)
if first_agent ~= '' then put(its, 'first_agent', first_agent) end
if session_untrusted == '1' then put(its, 'untrusted', 1) end
enlist(SESSIONS, session_id, 0)
call('SET', number, count, 'EX', request_ttl)
put(this, 'v', version, 'leg', leg, 'handoff', handoff, 'context', context, 'queue', queue, 'message', message,
  'summary', summary, 'cwd', cwd, 'agent', agent, 'came_from', came_from, 'entry', entry, 'catalog', digest, 'attempts', 0,
  'depth', depth, 'used_ms', 0, 'ttl', ttl, 'kept_ms', stamp, 'created_ms', stamp, 'request', request, 'asked', asked)
for i = counts.from, counts.to, 2 do put(this, ARGV[i], ARGV[i + 1]) end
for i = limits.from, limits.to, 2 do put(this, 'max_' .. ARGV[i], ARGV[i + 1]) end
distrust(this, session, is_untrusted)
set_state(state, variables, ttl)
for i = said.from, said.to do call('ZADD', messages, i - said.from + 1, (i - said.from + 1) .. ' ' .. ARGV[i]) end
for _, name in ipairs(call('HKEYS', origin_blobs)) do call('HSET', blobs, name, call('HGET', origin_blobs, name)) end
record(this, journal, records)
enlist(JOBS, id, 0)
redis.call('ZADD', JOB_IDS, 0, id)
enlist(DEADLINES, id, deadline_s * 1000)
enter(this, its, inbox, false)
for _, key in ipairs({job, journal, session}) do call('EXPIRE', key, ttl) end
for _, key in ipairs({blobs, messages, state}) do call('EXPIRE', key, ttl) end
if digest ~= '' then keep(ttl, catalog) end
return {'ok'}

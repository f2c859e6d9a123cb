-- Create a job and push its first message, or put it into the session's inbox: one step, which makes the session too where
-- the job is its first (begins). The same job again changes nothing, and answers whether it was asked for the same.
-- KEYS job, journal, blobs, session, messages, older_messages, inbox, state, number
-- ARGV id, session_id, begins, user, request_ttl, policy, handoff, context, queue, message, summary, cwd, version, agent,
--      on_busy, deadline_s, request, asked, records...
local its = read(session_id, session, NUMBERED, 'active', 'title')
if begins == '1' then
  local verdict = reserve(its, number, true, user, request_ttl, policy)
  if verdict[2] ~= '1' then return {'taken'} end
end
local this = read(id, job, 'v', 'request', 'asked', 'seq', PUSHED)
if this.v then
  save(its)
  -- A server that went back in time has forgotten whom it gave the number to, and gave it to another.
  if (this.request or request) ~= request then return {'taken'} end
  return {(this.asked or asked) == asked and 'exists' or 'another'}
end
local active = its.active
if active and on_busy == 'reject' then return {'busy', active} end
local ttl = TTL_S + tonumber(deadline_s)
put(this, 'v', version, 'leg', 0, 'handoff', handoff, 'context', context, 'queue', queue, 'message', message, 'summary', summary,
  'cwd', cwd, 'agent', 'router', 'entry', agent, 'fence', 0, 'attempts', 0, 'depth', 0, 'used_ms', 0, 'ttl', ttl,
  'kept_ms', stamp, 'created_ms', stamp, 'request', request, 'asked', asked)
if not its.title then put(its, 'title', summary, 'entry', agent) end
record(this, journal, records)
enlist(JOBS, id, 0)
redis.call('ZADD', JOB_IDS, 0, id)
enlist(DEADLINES, id, deadline_s * 1000)
local verdict = enter(this, its, inbox, on_busy == 'interrupt')
for _, key in ipairs({job, journal}) do call('EXPIRE', key, ttl) end
keep(ttl, session, blobs)
if begins ~= '1' then keep(ttl, messages, older_messages, inbox, state) end
return {verdict, active or ''}

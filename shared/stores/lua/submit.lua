-- Create a job and push its first message, or put it into the session's inbox: one step. The same job again changes
-- nothing, and answers whether it was asked for the same.
-- KEYS job, journal, blobs, session, messages, inbox, state
-- ARGV id, handoff, context, queue, message, summary, cwd, version, agent, on_busy, deadline_s, request, asked,
--      records...
if redis.call('EXISTS', job) == 1 then
  -- A server that went back in time has forgotten whom it gave the number to, and gave it to another.
  local h = redis.call('HMGET', job, 'request', 'asked')
  if (h[1] or request) ~= request then return {'taken'} end
  return {(h[2] or asked) == asked and 'exists' or 'another'}
end
local active = redis.call('HGET', session, 'active')
if active and on_busy == 'reject' then return {'busy', active} end
local ttl = TTL_S + tonumber(deadline_s)
redis.call('HSET', job, 'v', version, 'leg', 0, 'handoff', handoff, 'context', context, 'queue', queue, 'message', message,
  'summary', summary, 'cwd', cwd, 'agent', 'router', 'entry', agent, 'fence', 0, 'attempts', 0, 'seq', 0, 'depth', 0,
  'used_ms', 0, 'ttl', ttl, 'created_ms', whole(wall), 'request', request,
  'asked', asked)
if redis.call('HGET', session, 'title') == false then
  redis.call('HSET', session, 'title', summary, 'entry', agent)
end
record(job, journal, records)
enlist(JOBS, id, 0)
redis.call('ZADD', JOB_IDS, 0, id)
enlist(DEADLINES, id, deadline_s * 1000)
local verdict = enter(id, job, session, inbox, on_busy == 'interrupt')
keep(ttl, unpack(KEYS))
return {verdict, active or ''}

-- Create a job and push its first message, or put it into the session's inbox: one step. The same job again changes
-- nothing, and answers whether it was asked for the same.
-- KEYS job, journal, blobs, session, messages, inbox, state
-- ARGV id, handoff id, context, queue, message, summary, cwd, version, agent, on busy, deadline s, request id, digest, record
if redis.call('EXISTS', KEYS[1]) == 1 then
  -- A server that went back in time has forgotten whom it gave the number to, and gave it to another.
  local h = redis.call('HMGET', KEYS[1], 'request', 'asked')
  if (h[1] or ARGV[12]) ~= ARGV[12] then return {'taken'} end
  return {(h[2] or ARGV[13]) == ARGV[13] and 'exists' or 'another'}
end
local active = redis.call('HGET', KEYS[4], 'active')
if active and ARGV[10] == 'reject' then return {'busy', active} end
local ttl = TTL_S + tonumber(ARGV[11])
redis.call('HSET', KEYS[1], 'v', ARGV[8], 'leg', 0, 'handoff', ARGV[2], 'context', ARGV[3], 'queue', ARGV[4], 'message', ARGV[5],
  'summary', ARGV[6], 'cwd', ARGV[7], 'agent', 'router', 'entry', ARGV[9], 'fence', 0, 'attempts', 0, 'seq', 0, 'depth', 0,
  'used_ms', 0, 'ttl', ttl, 'created_ms', whole(wall), 'request', ARGV[12],
  'asked', ARGV[13])
if redis.call('HGET', KEYS[4], 'title') == false then
  redis.call('HSET', KEYS[4], 'title', ARGV[6], 'entry', ARGV[9])
end
record(KEYS[1], KEYS[2], 14, #ARGV)
enlist(JOBS, ARGV[1], 0)
redis.call('ZADD', JOB_IDS, 0, ARGV[1])
enlist(DEADLINES, ARGV[1], ARGV[11] * 1000)
local verdict = enter(ARGV[1], KEYS[1], KEYS[4], KEYS[6], ARGV[10] == 'interrupt')
keep(ttl, unpack(KEYS))
return {verdict, active or ''}

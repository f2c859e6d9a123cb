-- Let a job that failed or died go on behind its last record, as the session's next. The same retry again (same token)
-- changes nothing.
-- KEYS job, journal, blobs, session, messages, inbox, state
-- ARGV id, message, deadline_s, token, records...
local h = redis.call('HMGET', job, 'status', 'parent', 'catalog', 'retried')
if not h[1] then return {'gone'} end
if h[2] then return {'child', h[2]} end   -- its parent has long been told
if h[4] == token then return {'ok'} end
if h[1] ~= 'failed' and h[1] ~= 'dead' then return {'refused', h[1]} end
local ttl = TTL_S + tonumber(deadline_s)
record(job, journal, records)
redis.call('HSET', job, 'message', message, 'attempts', 0, 'given_back', 0, 'used_ms', 0, 'ttl', ttl, 'retried', token)
redis.call('HDEL', job, 'cancel', 'reason', 'result', 'ended_ms', 'spent_tokens', 'spent_micro')
enlist(DEADLINES, id, deadline_s * 1000)
local verdict = enter(id, job, session, inbox, false)
keep(ttl, CATALOGS .. (h[3] or ''), unpack(KEYS))
return {verdict}

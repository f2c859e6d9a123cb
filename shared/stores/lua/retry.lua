-- Let a job that failed or died go on behind its last record, as the session's next. The same retry again (same token)
-- changes nothing.
-- KEYS job, journal, blobs, session, messages, inbox, state  ARGV id, message, deadline s, token, record
local h = redis.call('HMGET', KEYS[1], 'status', 'parent', 'catalog', 'retried')
if not h[1] then return {'gone'} end
if h[2] then return {'child', h[2]} end   -- its parent has long been told
if h[4] == ARGV[4] then return {'ok'} end
if h[1] ~= 'failed' and h[1] ~= 'dead' then return {'refused', h[1]} end
local ttl = TTL_S + tonumber(ARGV[3])
record(KEYS[1], KEYS[2], 5, #ARGV)
redis.call('HSET', KEYS[1], 'message', ARGV[2], 'attempts', 0, 'given_back', 0, 'used_ms', 0, 'ttl', ttl, 'retried', ARGV[4])
redis.call('HDEL', KEYS[1], 'cancel', 'reason', 'result', 'ended_ms', 'spent_tokens', 'spent_micro')
enlist(DEADLINES, ARGV[1], ARGV[3] * 1000)
local verdict = enter(ARGV[1], KEYS[1], KEYS[4], KEYS[6], false)
keep(ttl, CATALOGS .. (h[3] or ''), unpack(KEYS))
return {verdict}

-- Let a job that failed or died go on behind its last record, as the session's next. The same retry again (same token)
-- changes nothing.
-- KEYS job, journal, blobs, session, messages, older_messages, inbox, state
-- ARGV id, message, deadline_s, token, records...
local this = read(id, job, 'parent', 'catalog', 'retried', 'seq', PUSHED)
if not this.status then return {'gone'} end
if this.parent then return {'child', this.parent} end   -- its parent has long been told
if this.retried == token then return {'ok'} end
if this.status ~= 'failed' and this.status ~= 'dead' then return {'refused', this.status} end
local ttl = TTL_S + tonumber(deadline_s)
record(this, journal, records)
put(this, 'message', message, 'attempts', 0, 'given_back', 0, 'used_ms', 0, 'ttl', ttl, 'kept_ms', stamp, 'retried', token)
drop(this, 'cancel', 'reason', 'result', 'ended_ms', SPENT)
enlist(DEADLINES, id, deadline_s * 1000)
local verdict = enter(this, read('', session, 'active'), inbox, false)
keep(ttl, CATALOGS .. (this.catalog or ''), unpack(KEYS))
return {verdict}

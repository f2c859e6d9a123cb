-- A job number in a session; the same number again for the same request id.
-- KEYS session, request
-- ARGV id, is_new, user, request_ttl, policy
local known = call('GET', request)
if known then return {'ok', known} end
local exists = call('EXISTS', session) == 1
if is_new == '1' and exists then return {'taken'} end
if is_new == '0' and not exists then return {'gone'} end
if not exists then call('HSET', session, 'created_ms', stamp, 'user', user, 'policy', policy) end
call('HSET', session, 'used_ms', stamp)
enlist(SESSIONS, id, 0)
local n = call('HINCRBY', session, 'jobs', 1)
keep(TTL_S, session)
call('SET', request, n, 'EX', request_ttl)
return {'ok', tostring(n)}

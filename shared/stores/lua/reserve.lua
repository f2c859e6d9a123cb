-- A job number in a session; the same number again for the same request id.
-- KEYS session, number
-- ARGV session_id, is_new, user, request_ttl, policy
local its = read(session_id, session, NUMBERED)
local verdict = reserve(its, number, is_new == '1', user, request_ttl, policy)
save(its)
keep(TTL_S, session)
return verdict

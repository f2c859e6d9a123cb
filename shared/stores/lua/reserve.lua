-- A job number in a session; the same number again for the same request id.
-- KEYS session, request  ARGV session id, is new, user, request ttl, policy
local known = redis.call('GET', KEYS[2])
if known then return {'ok', known} end
local exists = redis.call('EXISTS', KEYS[1]) == 1
if ARGV[2] == '1' and exists then return {'taken'} end
if ARGV[2] == '0' and not exists then return {'gone'} end
if not exists then redis.call('HSET', KEYS[1], 'created_ms', whole(wall), 'user', ARGV[3], 'policy', ARGV[5]) end
redis.call('HSET', KEYS[1], 'used_ms', whole(wall))
enlist(SESSIONS, ARGV[1], 0)
local n = redis.call('HINCRBY', KEYS[1], 'jobs', 1)
keep(TTL_S, KEYS[1])
redis.call('SET', KEYS[2], n, 'EX', ARGV[4])
return {'ok', tostring(n)}

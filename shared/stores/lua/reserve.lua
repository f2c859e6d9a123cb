-- A job number in a session; the same number again for the same request id.
-- KEYS session, request  ARGV is_new, user, session ttl, request ttl
local known = redis.call('GET', KEYS[2])
if known then return {'ok', known} end
local exists = redis.call('EXISTS', KEYS[1]) == 1
if ARGV[1] == '1' and exists then return {'taken'} end
if ARGV[1] == '0' and not exists then return {'gone'} end
if not exists then redis.call('HSET', KEYS[1], 'created_ms', string.format('%.0f', now), 'user', ARGV[2]) end
local n = redis.call('HINCRBY', KEYS[1], 'jobs', 1)
redis.call('EXPIRE', KEYS[1], ARGV[3])
redis.call('SET', KEYS[2], n, 'EX', ARGV[4])
return {'ok', tostring(n)}

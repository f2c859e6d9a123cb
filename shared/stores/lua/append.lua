-- Record steps of a running leg. The same append again (same token) changes nothing.
-- KEYS job, journal  ARGV fence, leg, token, is progress, used ms, records...
local no = refusal(KEYS[1], ARGV[1], ARGV[2], '')
if no then return no end
local h = redis.call('HMGET', KEYS[1], 'cancel', 'token', 'seq')
if h[1] then return {'cancelled', h[1]} end
if h[2] == ARGV[3] then return {'ok', h[3]} end
local seq = record(KEYS[1], KEYS[2], 6, #ARGV)
redis.call('HSET', KEYS[1], 'token', ARGV[3], 'used_ms', ARGV[5])
if ARGV[4] == '1' then redis.call('HSET', KEYS[1], 'attempts', 0) end
return {'ok', tostring(seq)}

-- Record steps of a running leg. The same append again (same token) changes nothing.
-- KEYS job, journal, root job  ARGV fence, leg, token, is progress, used ms, tokens, micro-USD, records...
local no = refusal(KEYS[1], ARGV[1], ARGV[2], '')
if no then return no end
local h = redis.call('HMGET', KEYS[1], 'cancel', 'token', 'seq')
if h[1] then return {'cancelled', h[1]} end
if h[2] == ARGV[3] then return {'ok', h[3], used_up(KEYS[3])} end
local seq = record(KEYS[1], KEYS[2], 8, #ARGV)
redis.call('HSET', KEYS[1], 'token', ARGV[3], 'used_ms', ARGV[5])
if ARGV[4] == '1' then redis.call('HSET', KEYS[1], 'attempts', 0) end
if ARGV[6] == '0' and ARGV[7] == '0' then return {'ok', tostring(seq), ''} end
redis.call('HINCRBY', KEYS[3], 'spent_tokens', ARGV[6])   -- what all jobs below one root use up is counted there
redis.call('HINCRBY', KEYS[3], 'spent_micro', ARGV[7])
return {'ok', tostring(seq), used_up(KEYS[3])}

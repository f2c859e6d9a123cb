-- Record steps of a running leg. The same append again (same token) changes nothing.
-- KEYS job, journal, root job
-- ARGV fence, leg, seq, token, is progress, is untrusted, used ms, tokens, micro-USD, records...
local h = redis.call('HMGET', KEYS[1], 'cancel', 'token', 'seq')
local again = h[2] == ARGV[4]
local no = refusal(KEYS[1], ARGV[1], ARGV[2], again and h[3] or ARGV[3], '')
if no then return no end
if h[1] then return {'cancelled', h[1]} end
if again then return {'ok', h[3], used_up(KEYS[3])} end
local seq = record(KEYS[1], KEYS[2], 10, #ARGV)
redis.call('HSET', KEYS[1], 'token', ARGV[4], 'used_ms', ARGV[7])
if ARGV[5] == '1' then redis.call('HSET', KEYS[1], 'attempts', 0, 'given_back', 0) end
if ARGV[6] == '1' then   -- its session remembers: what was said there is read by the jobs that follow
  redis.call('HSET', KEYS[1], 'untrusted', 1)
  redis.call('HSET', (string.gsub(KEYS[3], ':job:.*$', ':session')), 'untrusted', 1)
end
if ARGV[8] == '0' and ARGV[9] == '0' then return {'ok', tostring(seq), ''} end
redis.call('HINCRBY', KEYS[3], 'spent_tokens', ARGV[8])   -- what all jobs below one root use up is counted there
redis.call('HINCRBY', KEYS[3], 'spent_micro', ARGV[9])
return {'ok', tostring(seq), used_up(KEYS[3])}

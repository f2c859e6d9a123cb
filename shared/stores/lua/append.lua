-- Record steps of a running leg. The same append again (same token) changes nothing.
-- KEYS job, journal, root
-- ARGV fence, leg, seq, token, is_progress, is_untrusted, used_ms, tokens, micro_usd, records...
local h = redis.call('HMGET', job, 'cancel', 'token', 'seq')
local again = h[2] == token
local no = refusal(job, fence, leg, again and h[3] or seq, '')
if no then return no end
if h[1] then return {'cancelled', h[1]} end
if again then return {'ok', h[3], used_up(root)} end
local seq = record(job, journal, records)
redis.call('HSET', job, 'token', token, 'used_ms', used_ms)
if is_progress == '1' then redis.call('HSET', job, 'attempts', 0, 'given_back', 0) end
if is_untrusted == '1' then   -- its session remembers: what was said there is read by the jobs that follow
  redis.call('HSET', job, 'untrusted', 1)
  redis.call('HSET', (string.gsub(root, ':job:.*$', ':session')), 'untrusted', 1)
end
if tokens == '0' and micro_usd == '0' then return {'ok', tostring(seq), ''} end
redis.call('HINCRBY', root, 'spent_tokens', tokens)   -- what all jobs below one root use up is counted there
redis.call('HINCRBY', root, 'spent_micro', micro_usd)
return {'ok', tostring(seq), used_up(root)}

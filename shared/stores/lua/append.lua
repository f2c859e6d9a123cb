-- Record steps of a running leg. The same append again (same token) changes nothing.
-- KEYS job, journal, session, root
-- ARGV id, fence, leg, seq, token, is_progress, is_untrusted, used_ms, tokens, micro_usd, records...
local this = read(id, job, 'token', FENCED, BUDGET)
local again = this.token == token
local no = refusal(this, fence, leg, again and this.seq or seq)
if no then return no end
if this.cancel then return {'cancelled', this.cancel} end
local purse = purse_of(this, root)
if again then return {'ok', this.seq, used_up(purse)} end
local last = record(this, journal, records)
put(this, 'token', token, 'used_ms', used_ms)
if is_progress == '1' then put(this, 'attempts', 0, 'given_back', 0) end
if is_untrusted == '1' then   -- its session remembers: what was said there is read by the jobs that follow
  put(this, 'untrusted', 1)
  call('HSET', session, 'untrusted', 1)
end
if purse.status and (tokens ~= '0' or micro_usd ~= '0') then
  put(purse, 'spent_tokens', (purse.spent_tokens or 0) + tokens, 'spent_micro', (purse.spent_micro or 0) + micro_usd)
end
save(this)
if purse ~= this then save(purse) end
return {'ok', tostring(last), used_up(purse)}

-- Record steps of a running leg. The same append again (same token) changes nothing.
-- KEYS job, journal, session, root
-- ARGV id, fence, leg, seq, token, is_progress, is_untrusted, used_ms, tokens, micro_usd, turns, used..., records...
local this = read(id, job, 'token', 'used_ms', FENCED, BUDGET)
local again = this.token == token
local no = refusal(this, fence, leg, again and this.seq or seq)
if no then return no end
if this.cancel then return {'cancelled', this.cancel} end
local purse = purse_of(this, root)
if again then return {'ok', this.seq, (spending(purse, session))} end
local last = record(this, journal, records)
spend(this, purse, tokens, micro_usd, turns, used_ms)
account(this, purse, session, used)
put(this, 'token', token, 'used_ms', used_ms)
if is_progress == '1' then put(this, 'attempts', 0, 'given_back', 0) end
distrust(this, session, is_untrusted)
save(this)
if purse ~= this then save(purse) end
return {'ok', tostring(last), (spending(purse, session))}

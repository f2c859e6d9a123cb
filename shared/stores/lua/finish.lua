-- End a job: by its running leg (fence), or by the sweeper for a leg whose lease ran out (fence '').
-- KEYS job, journal, blobs, session, messages, older_messages, inbox, state, root
-- ARGV id, fence, leg, seq, commit, is_untrusted, tokens, micro_usd, turns, used_ms, status, reason, result, used..., variables..., said...,
--      records...
local this = read(id, job, FENCED, FINISHED, BUDGET, 'used_ms', 'commit:' .. leg)
local no = repeated(this, leg, commit) or refusal(this, fence, leg, seq)
if no then return no end
local fits = {user = 'cancelled', parent = 'cancelled', deadline = 'failed'}
if fence ~= '' and this.cancel and status ~= fits[this.cancel] then return {'cancelled', this.cancel} end
local purse = purse_of(this, root)
spend(this, purse, tokens, micro_usd, turns, used_ms)
account(this, purse, session, used)
if purse ~= this then save(purse) end
distrust(this, session, is_untrusted)
put(this, 'commit:' .. leg, commit .. ' ok')
finish(this, {job = job, journal = journal, blobs = blobs, session = session, messages = messages,
  older_messages = older_messages, inbox = inbox, state = state}, status, reason, result, variables, said, records)
return {'ok'}

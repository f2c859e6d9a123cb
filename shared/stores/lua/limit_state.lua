-- Tell how much of a limit is used: calls, tokens, slots, jobs that wait, and for how long nobody may call, in ms.
-- KEYS limit
local this = limit_at(limit)
limit_prune(this)
limit_save(this)
return {whole(this.calls), whole(this.tokens), tostring(call('ZCARD', limit .. ':slots')),
  tostring(call('ZCARD', limit .. ':waiting')), whole(math.max(0, (this.blocked_ms or 0) - now))}

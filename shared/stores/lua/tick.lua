-- Tell relay time, and note how far a pool has followed it: up to here its own clock agreed. The first pool of all follows
-- it from its first look on: what is written behind a jump is remembered from then on, too.
-- known: how many jumps the pool knows of; '' and 0: it has only begun; '-' and 0: it is no pool.
-- ARGV known, followed_ms
local upto = followed == 0 and known == '' and ticked or known == jumps and tonumber(followed_ms) or 0
if upto > followed then
  followed = upto
  redis.call('HSET', CLOCK, 'followed_ms', whole(followed))
end
if ticked >= followed then redis.call('ZREMRANGEBYSCORE', UNVOUCHED, '-inf', followed) end   -- else it stands still
return {whole(ticked), whole(followed), jumps}

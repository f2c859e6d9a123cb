-- Tell relay time, and note how far a pool has followed it: up to here its own clock agreed.
-- known: how many jumps the pool knows of; '' and 0: it has only begun.
-- ARGV known, followed_ms
if known == jumps and tonumber(followed_ms) > followed then
  followed = tonumber(followed_ms)
  redis.call('HSET', CLOCK, 'followed_ms', followed_ms)
end
if ticked >= followed then redis.call('ZREMRANGEBYSCORE', UNVOUCHED, '-inf', followed) end   -- else it stands still
return {whole(ticked), whole(followed), jumps}

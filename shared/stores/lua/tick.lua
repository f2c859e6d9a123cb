-- Tell relay time, and note how far a pool has followed it: up to here its own clock agreed.
-- ARGV number of jumps that the pool knows of, ms up to which it followed ('' and 0: it has only begun)
if ARGV[1] == jumps and tonumber(ARGV[2]) > followed then
  followed = tonumber(ARGV[2])
  redis.call('HSET', CLOCK, 'followed_ms', ARGV[2])
end
if ticked >= followed then redis.call('ZREMRANGEBYSCORE', UNVOUCHED, '-inf', followed) end   -- else it stands still
return {whole(ticked), whole(followed), jumps}

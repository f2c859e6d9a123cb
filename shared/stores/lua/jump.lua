-- Take a jump of the server's clock out of relay time, once: whoever noticed it too comes too late. Behind what any pool
-- has followed relay time never falls, so that a pool whose own clock stood still (a laptop asleep) cannot hold it up.
-- known: how many jumps the pool knows of; since_ms: as it counts now.
-- ARGV known, by_ms, since_ms
if known ~= jumps then return {'known'} end
local before = now
now = math.max(ticked - by_ms, followed)
redis.call('HSET', CLOCK, 'offset_ms', whole(now - wall), 'jumps', jumps + 1, 'jump_ms', whole(ticked - now),
  'jumped_ms', whole(wall))
-- What was listed since it jumped is as far off; what was listed while relay time stood still, as if it were listed now.
local listed = redis.call('ZRANGEBYSCORE', UNVOUCHED, since_ms, whole(before), 'WITHSCORES')
for i = 1, #listed, 2 do
  local index, id = string.match(listed[i], '^(.+) (%S+)$')
  local at = listed_at(index, id)
  if at > 0 then redis.call('ZADD', index, at + now - (ticked < followed and listed[i + 1] or before), id) end
end
redis.call('DEL', UNVOUCHED)
-- A clock that was set back lets those seem alive who have died.
for _, pool in ipairs(redis.call('ZRANGE', POOLS, 0, -1)) do redis.call('EXPIRE', POOL .. pool, POOL_TTL_S) end
return {'ok', whole(ticked - now)}

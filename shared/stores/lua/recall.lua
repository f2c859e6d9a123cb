-- Read what was written in a namespace of notes behind a version: how many there are, the sum of their versions, then id,
-- version and text of each, the oldest first.
-- KEYS memory, order
-- ARGV after, limit
local counters = redis.call('HMGET', memory, 'sum', 'version')
local found = {whole(redis.call('ZCARD', order)), counters[1] or '0'}
local newer = redis.call('ZRANGEBYSCORE', order, '(' .. after, '+inf', 'WITHSCORES', 'LIMIT', 0, limit)
for i = 1, #newer, 2 do
  found[#found + 1] = newer[i]
  found[#found + 1] = newer[i + 1]
  found[#found + 1] = redis.call('HGET', memory, newer[i]) or ''
end
return found

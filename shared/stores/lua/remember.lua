-- Change the notes of a namespace, all or none: each change names the version that it was made from (0: no note).
-- KEYS memory, order
-- ARGV most, gone..., written...
local sum, size = tonumber(redis.call('HGET', memory, 'sum') or '0'), redis.call('HLEN', memory)
if size == 0 then size = 2 end   -- the two counters
local function seen(at)
  return tonumber(redis.call('ZSCORE', order, ARGV[at]) or '0')
end

for i = gone.from, gone.to, 2 do
  if seen(i) ~= tonumber(ARGV[i + 1]) then return {'changed'} end
  size = size - 1
end
for i = written.from, written.to, 3 do
  if seen(i) ~= tonumber(ARGV[i + 1]) then return {'changed'} end
  if seen(i) == 0 then size = size + 1 end
end
if written.to >= written.from and size > tonumber(most) then return {'full'} end

-- Time goes on where the server has lost what it had: a version is never given twice.
local version = math.max(tonumber(redis.call('HGET', memory, 'version') or '0'), wall)
for i = gone.from, gone.to, 2 do
  sum = (sum - ARGV[i + 1]) % 2^40
  redis.call('ZREM', order, ARGV[i])
  redis.call('HDEL', memory, ARGV[i])
end
for i = written.from, written.to, 3 do
  version = version + 1
  sum = (sum - ARGV[i + 1] + version) % 2^40
  redis.call('ZADD', order, whole(version), ARGV[i])
  redis.call('HSET', memory, ARGV[i], ARGV[i + 2])
end
if redis.call('ZCARD', order) == 0 then
  redis.call('DEL', memory)
else
  redis.call('HSET', memory, 'version', whole(version), 'sum', whole(sum))
end
return {'ok'}

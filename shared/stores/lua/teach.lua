-- Change what was learned from requests, unless somebody else has since it was read (its version says so).
-- KEYS lessons
-- ARGV version, next_version, gone..., written...
if (redis.call('HGET', lessons, 'version') or '') ~= version then return {'changed'} end
for i = gone.from, gone.to do redis.call('HDEL', lessons, ARGV[i]) end
for i = written.from, written.to, 2 do redis.call('HSET', lessons, ARGV[i], ARGV[i + 1]) end
redis.call('HSET', lessons, 'version', next_version)
redis.call('EXPIRE', lessons, LESSONS_TTL_S)
return {'ok'}

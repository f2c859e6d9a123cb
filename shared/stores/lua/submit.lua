-- Create a job and push its first message: one step. Submitting the same job again changes nothing.
-- KEYS job, journal, session, queue, queued index, jobs, job ids
-- ARGV id, handoff id, context, queue, message, summary, cwd, version, ttl, record
if redis.call('EXISTS', KEYS[1]) == 1 then return {'exists'} end
local stamp = string.format('%.0f', now)
redis.call('HSET', KEYS[1], 'v', ARGV[8], 'leg', 0, 'handoff', ARGV[2], 'context', ARGV[3], 'queue', ARGV[4], 'message', ARGV[5],
  'summary', ARGV[6], 'cwd', ARGV[7], 'agent', 'router', 'fence', 0, 'attempts', 0, 'seq', 0, 'depth', 0, 'used_ms', 0,
  'created_ms', stamp)
record(KEYS[1], KEYS[2], 10, 1)
keep(ARGV[9], KEYS[1], KEYS[2], KEYS[3])
local old = redis.call('ZRANGEBYSCORE', KEYS[6], '-inf', now - ARGV[9] * 1000, 'LIMIT', 0, 100)
if #old > 0 then
  redis.call('ZREM', KEYS[6], unpack(old))
  redis.call('ZREM', KEYS[7], unpack(old))
end
redis.call('ZADD', KEYS[6], now, ARGV[1])
redis.call('ZADD', KEYS[7], 0, ARGV[1])
push(ARGV[1], KEYS[1], KEYS[4], KEYS[5])
return {'ok'}

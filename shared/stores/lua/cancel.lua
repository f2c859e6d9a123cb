-- Cancel a job: end it at once unless a worker runs it, which then sees the flag at its next step.
-- KEYS job, journal, session, messages, leases, timers, queued index
-- ARGV id, channel, ttl, queue, status, reason, result, n, messages..., record
local h = redis.call('HMGET', KEYS[1], 'status', 'lease_ms', 'queue')
if not h[1] then return {'gone'} end
if TERMINAL[h[1]] then return {'finished', h[1]} end
if h[3] ~= ARGV[4] then return {'moved', h[3]} end
redis.call('HSET', KEYS[1], 'cancel', 1)
if h[1] == 'running' and tonumber(h[2]) > now then
  redis.call('PUBLISH', ARGV[2], ARGV[1])
  return {'flagged'}
end
finish(ARGV[1], KEYS[1], KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], 5, ARGV[3])
return {'ok'}

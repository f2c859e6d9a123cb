-- Stop a job from outside (a user, its deadline): end it at once unless a worker runs it, which then sees the flag at its
-- next step.
-- KEYS job, journal, blobs, session, messages, inbox
-- ARGV id, flag, channel, status, reason, result, n, messages..., records...
local h = redis.call('HMGET', KEYS[1], 'status', 'lease_ms')
if not h[1] then return {'gone'} end
if TERMINAL[h[1]] then return {'finished'} end
redis.call('HSETNX', KEYS[1], 'cancel', ARGV[2])
redis.call('ZREM', DEADLINES, ARGV[1])
if h[1] == 'running' and tonumber(h[2]) > now then
  redis.call('PUBLISH', ARGV[3], ARGV[1])
  return {'flagged'}
end
finish(ARGV[1], ending_keys(), 4)
return {'ok'}

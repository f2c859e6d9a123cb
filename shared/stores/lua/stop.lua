-- Stop a job from outside (a user, its deadline): end it at once unless a worker runs it, which then sees the flag at its
-- next step.
-- KEYS job, journal, blobs, session, messages, inbox
-- ARGV id, flag, channel, seq ('': any), status, reason, result, n, messages..., records...
local h = redis.call('HMGET', KEYS[1], 'status', 'lease_ms', 'seq')
if not h[1] then return {'gone'} end
if TERMINAL[h[1]] then return {'finished'} end
redis.call('HSETNX', KEYS[1], 'cancel', ARGV[2])
redis.call('ZREM', DEADLINES, ARGV[1])
if h[1] == 'running' and tonumber(h[2]) > now then
  redis.call('PUBLISH', ARGV[3], ARGV[1])
  return {'flagged'}
end
-- The records close what was open in the journal that the caller read: it must be the same still.
if ARGV[4] ~= '' and ARGV[4] ~= h[3] then return {'moved'} end
finish(ARGV[1], ending_keys(), 5)
return {'ok'}

-- Stop a job from outside (a user, its deadline): end it at once unless a worker runs it, which then sees the flag at its
-- next step. Who ended it and asks again (same token) is told so again.
-- KEYS job, journal, blobs, session, messages, inbox, state
-- ARGV id, flag, seq ('': any), token, unfollowed ('': nobody knows), status, reason, result, n, variables..., n,
--      messages..., records...
local h = redis.call('HMGET', KEYS[1], 'status', 'seq', 'cancel', 'stopped')
if not h[1] then return {'gone'} end
if TERMINAL[h[1]] then return {h[4] == ARGV[4] and 'ok' or 'finished'} end
redis.call('HSETNX', KEYS[1], 'cancel', ARGV[2])
redis.call('ZREM', DEADLINES, ARGV[1])
-- A time that nobody vouches for ends no lease, unless the caller has seen that no pool runs: pools had followed it to
-- unfollowed then, and still have only.
local is_over = listed_at(LEASES, ARGV[1]) <= now and ARGV[5] == whole(followed)
if h[1] == 'running' and is_leased(ARGV[1]) and not is_over then
  redis.call('PUBLISH', STOPPED, ARGV[1])
  return {'flagged'}
end
-- The records close what was open in the journal that the caller read, for the reason that it knows: both must be so still.
if (ARGV[3] ~= '' and ARGV[3] ~= h[2]) or (h[3] and h[3] ~= ARGV[2]) then return {'moved'} end
redis.call('HSET', KEYS[1], 'stopped', ARGV[4])
finish(ARGV[1], ending_keys(), 6)
return {'ok'}

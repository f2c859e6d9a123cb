-- Stop a job from outside (a user, its deadline): end it at once unless a worker runs it, which then sees the flag at its
-- next step. Who ended it and asks again (same token) is told so again.
-- seq: '' for any; unfollowed_ms: '' for nobody knows.
-- KEYS job, journal, blobs, session, messages, inbox, state
-- ARGV id, flag, seq, token, unfollowed_ms, status, reason, result, variables..., said..., records...
local h = redis.call('HMGET', job, 'status', 'seq', 'cancel', 'stopped')
if not h[1] then return {'gone'} end
if TERMINAL[h[1]] then return {h[4] == token and 'ok' or 'finished'} end
redis.call('HSETNX', job, 'cancel', flag)
redis.call('ZREM', DEADLINES, id)
-- A time that nobody vouches for ends no lease, unless the caller has seen that no pool runs: pools had followed it to
-- unfollowed then, and still have only.
local is_over = listed_at(LEASES, id) <= now and unfollowed_ms == whole(followed)
if h[1] == 'running' and is_leased(id) and not is_over then
  redis.call('PUBLISH', STOPPED, id)
  return {'flagged'}
end
-- The records close what was open in the journal that the caller read, for the reason that it knows: both must be so still.
if (seq ~= '' and seq ~= h[2]) or (h[3] and h[3] ~= flag) then return {'moved'} end
redis.call('HSET', job, 'stopped', token)
finish(id, {job = job, journal = journal, blobs = blobs, session = session, messages = messages, inbox = inbox, state = state},
  status, reason, result, variables, said, records)
return {'ok'}

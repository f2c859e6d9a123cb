-- End a job: by its running leg (fence), or by the sweeper for a leg whose lease ran out (fence '').
-- KEYS job, journal, session, messages, leases, timers, queued index
-- ARGV id, fence, leg, commit, ttl, status, reason, result, n, messages..., record
local id, job, fence = ARGV[1], KEYS[1], ARGV[2]
if fence ~= '' then
  local no = refusal(job, fence, ARGV[3], ARGV[4])
  if no then return no end
  if redis.call('HGET', job, 'cancel') and ARGV[6] ~= 'cancelled' then return {'cancelled'} end
else
  local h = redis.call('HMGET', job, 'status', 'leg', 'lease_ms')
  if not h[1] then return {'gone'} end
  if TERMINAL[h[1]] then return {'finished'} end
  if h[2] ~= ARGV[3] or h[1] ~= 'running' or tonumber(h[3]) > now then return {'stale'} end
end
finish(id, job, KEYS[2], KEYS[3], KEYS[4], KEYS[5], KEYS[6], KEYS[7], 6, ARGV[5])
return settle(job, ARGV[3], ARGV[4], 'ok')

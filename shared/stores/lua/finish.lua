-- End a job: by its running leg (fence), or by the sweeper for a leg whose lease ran out (fence '').
-- KEYS job, journal, blobs, session, messages, inbox
-- ARGV id, fence, leg, commit, status, reason, result, n, messages..., records...
local id, job, fence = ARGV[1], KEYS[1], ARGV[2]
if fence ~= '' then
  local no = refusal(job, fence, ARGV[3], ARGV[4])
  if no then return no end
  local cancel = redis.call('HGET', job, 'cancel')
  local fits = {user = 'cancelled', deadline = 'failed'}
  if cancel and ARGV[5] ~= fits[cancel] then return {'cancelled', cancel} end
else
  local h = redis.call('HMGET', job, 'status', 'leg', 'lease_ms')
  if not h[1] then return {'gone'} end
  if TERMINAL[h[1]] then return {'finished'} end
  if h[2] ~= ARGV[3] or h[1] ~= 'running' or tonumber(h[3]) > now then return {'stale'} end
end
finish(id, ending_keys(), 5)
return settle(job, ARGV[3], ARGV[4], 'ok')

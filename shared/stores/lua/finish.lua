-- End a job: by its running leg (fence), or by the sweeper for a leg whose lease ran out (fence '').
-- KEYS job, journal, blobs, session, messages, inbox, state
-- ARGV id, fence, leg, seq, commit, status, reason, result, n, variables..., n, messages..., records...
local id, job = ARGV[1], KEYS[1]
local no = refusal(job, ARGV[2], ARGV[3], ARGV[4], ARGV[5])
if no then return no end
if ARGV[2] ~= '' then
  local cancel = redis.call('HGET', job, 'cancel')
  local fits = {user = 'cancelled', parent = 'cancelled', deadline = 'failed'}
  if cancel and ARGV[6] ~= fits[cancel] then return {'cancelled', cancel} end
end
finish(id, ending_keys(), 6)
return settle(job, ARGV[3], ARGV[5], 'ok')

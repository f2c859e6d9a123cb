-- End a job: by its running leg (fence), or by the sweeper for a leg whose lease ran out (fence '').
-- KEYS job, journal, blobs, session, messages, inbox, state
-- ARGV id, fence, leg, seq, commit, status, reason, result, variables..., said..., records...
local no = refusal(job, fence, leg, seq, commit)
if no then return no end
if fence ~= '' then
  local cancel = redis.call('HGET', job, 'cancel')
  local fits = {user = 'cancelled', parent = 'cancelled', deadline = 'failed'}
  if cancel and status ~= fits[cancel] then return {'cancelled', cancel} end
end
finish(id, {job = job, journal = journal, blobs = blobs, session = session, messages = messages, inbox = inbox, state = state},
  status, reason, result, variables, said, records)
return settle(job, leg, commit, 'ok')

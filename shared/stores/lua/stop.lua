-- Stop a job from outside (a user, its deadline): end it at once unless a worker runs it, which then sees the flag at its
-- next step. Who ended it and asks again (same token) is told so again.
-- seq: '' for any; unfollowed_ms: '' for nobody knows.
-- KEYS job, journal, blobs, session, messages, older_messages, inbox, state
-- ARGV id, flag, seq, token, unfollowed_ms, status, reason, result, variables..., said..., records...
local this = read(id, job, 'status', 'seq', 'cancel', 'stopped', FINISHED)
if not this.status then return {'gone'} end
if TERMINAL[this.status] then return {this.stopped == token and 'ok' or 'finished'} end
local already = this.cancel
if not already then
  put(this, 'cancel', flag)
  save(this)
end
redis.call('ZREM', DEADLINES, id)
-- A time that nobody vouches for ends no lease, unless the caller has seen that no pool runs: pools had followed it to
-- unfollowed_ms then, and still have only.
local is_over = listed_at(LEASES, id) <= now and unfollowed_ms == whole(followed)
if this.status == 'running' and is_leased(id) and not is_over then
  call('PUBLISH', STOPPED, id)
  return {'flagged'}
end
-- The records close what was open in the journal that the caller read, for the reason that it knows: both must be so still.
if (seq ~= '' and seq ~= this.seq) or (already and already ~= flag) then return {'moved'} end
put(this, 'stopped', token)
finish(this, {job = job, journal = journal, blobs = blobs, session = session, messages = messages,
  older_messages = older_messages, inbox = inbox, state = state}, status, reason, result, variables, said, records)
return {'ok'}

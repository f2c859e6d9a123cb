-- Make a leg ready again whose worker died, whose timer rang or whose message was lost. Harmless when there was no need:
-- the claim decides. passed_ms: the relay time that the sweeper has followed.
-- KEYS job, queue
-- ARGV id, grace_ms, max_attempts, passed_ms
local passed = tonumber(passed_ms)
local this = read(id, job, 'attempts', 'leg', 'cancel', 'given_back', 'waits', PUSHED)
if not this.status or TERMINAL[this.status] then
  for _, index in ipairs({LEASES, TIMERS, QUEUED .. queue, QUEUED .. (this.queue or '')}) do redis.call('ZREM', index, id) end
  return {'finished'}
end
if this.queue ~= queue then
  redis.call('ZREM', QUEUED .. queue, id)
  return {'moved'}
end
if this.status == 'running' and listed_at(LEASES, id) > passed then return {'busy'} end
if this.cancel then return {'stopped', this.cancel} end   -- who was to see the flag is gone: the sweeper ends the job
if this.status == 'running' then
  if this.attempts - (this.given_back or 0) >= tonumber(max_attempts) then return {'dead', this.leg} end
elseif this.status == 'suspended' then
  local due = redis.call('ZSCORE', TIMERS, id)
  if not due then return {'waiting'} end   -- for its children: the last of them wakes it
  if tonumber(due) > passed then return {'busy'} end
  if this.waits then return {'unanswered', this.waits} end   -- the caller has their records; the last of them wakes it
elseif this.status == 'waiting' then
  return {'waiting'}
else
  local since = listed_at(QUEUED .. queue, id)
  if since + grace_ms > passed then return {'busy'} end
  -- Lists are first in, first out: while the oldest message is not younger than ours, ours may still be in the list. One
  -- from a time that has not come yet (pushed just when the clock jumped) tells nothing.
  local oldest = redis.call('LINDEX', queue, -1)
  local sent_ms = oldest and tonumber(string.match(oldest, '"ekiden_ms": ?(%d+)'))
  if oldest and (not sent_ms or sent_ms <= since or sent_ms > now) then return {'waiting'} end
end
forget(this)
push(this)
return {'ok'}

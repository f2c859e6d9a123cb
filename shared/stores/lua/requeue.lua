-- Make a leg ready again whose worker died, whose timer rang or whose message was lost. Harmless when there was no need:
-- the claim decides. passed_ms: the relay time that the sweeper has followed.
-- KEYS job, queue
-- ARGV id, grace_ms, max_attempts, passed_ms
local passed = tonumber(passed_ms)
local h = redis.call('HMGET', job, 'status', 'queue', 'attempts', 'leg', 'cancel', 'given_back')
if not h[1] or TERMINAL[h[1]] then
  redis.call('ZREM', QUEUED .. queue, id)
  forget(id, job)
  return {'finished'}
end
if h[2] ~= queue then
  redis.call('ZREM', QUEUED .. queue, id)
  return {'moved'}
end
if h[1] == 'running' and listed_at(LEASES, id) > passed then return {'busy'} end
if h[5] then return {'stopped', h[5]} end   -- who was to see the flag is gone: the sweeper ends the job
if h[1] == 'running' then
  if h[3] - (h[6] or 0) >= tonumber(max_attempts) then return {'dead', h[4]} end
elseif h[1] == 'suspended' then
  local due = redis.call('ZSCORE', TIMERS, id)
  if not due then return {'waiting'} end   -- for its children: the last of them wakes it
  if tonumber(due) > passed then return {'busy'} end
elseif h[1] == 'waiting' then
  return {'waiting'}
else
  local since = listed_at(QUEUED .. queue, id)
  if since + grace_ms > passed then return {'busy'} end
  -- Lists are first in, first out: while the oldest message is not younger than ours, ours may still be in the list. One
  -- from a time that has not come yet (pushed just when the clock jumped) tells nothing.
  clear_the_way(queue)
  local oldest = redis.call('LINDEX', queue, -1)
  local stamp = oldest and tonumber(string.match(oldest, '"ekiden_ms": ?(%d+)'))
  if oldest and (not stamp or stamp <= since or stamp > now) then return {'waiting'} end
end
forget(id, job)
push(id, job)
return {'ok'}

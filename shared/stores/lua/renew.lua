-- Renew the leases of one process, all in one call. Answers the ids that it must stop: lost, or the flag that stops them.
-- A job whose journal is shorter than its writer remembers is lost: the server went back in time, and forgot its steps.
-- KEYS jobs...
-- ARGV lease_ms, leases...
local stop = {}
for i = jobs.from, jobs.to do
  local at = leases.from + 3 * (i - jobs.from)
  local id, fence, seq = ARGV[at], ARGV[at + 1], tonumber(ARGV[at + 2])
  local h = call('HMGET', KEYS[i], 'status', 'fence', 'owner', 'cancel', 'seq')
  if h[1] == 'running' and fence_of(h[2], h[3]) == fence and tonumber(h[5]) >= seq then
    enlist(LEASES, id, lease_ms)
    if h[4] then stop[#stop + 1] = 'cancelled ' .. id end
  else
    stop[#stop + 1] = 'lost ' .. id
  end
end
return stop

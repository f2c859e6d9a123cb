-- Renew the leases of one process, all in one call. Answers the ids that it must stop: lost, or the flag that stops them.
-- KEYS job...  ARGV lease ms, then id and fence of each job
local stop = {}
for i = 1, #KEYS do
  local id, fence = ARGV[2 * i], ARGV[2 * i + 1]
  local h = redis.call('HMGET', KEYS[i], 'status', 'fence', 'cancel')
  if h[1] == 'running' and h[2] == fence then
    enlist(LEASES, id, ARGV[1])
    if h[3] then stop[#stop + 1] = 'cancelled ' .. id end
  else
    stop[#stop + 1] = 'lost ' .. id
  end
end
return stop

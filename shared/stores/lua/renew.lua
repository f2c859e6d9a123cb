-- Renew the leases of one process, all in one call. Answers the ids that it must stop: lost, or the flag that stops them.
-- KEYS job...  ARGV lease ms, then id and fence of each job
local stop = {}
local until_ms = whole(now + ARGV[1])
for i = 1, #KEYS do
  local id, fence = ARGV[2 * i], ARGV[2 * i + 1]
  local h = redis.call('HMGET', KEYS[i], 'status', 'fence', 'cancel')
  if h[1] == 'running' and h[2] == fence then
    redis.call('HSET', KEYS[i], 'lease_ms', until_ms)
    redis.call('ZADD', LEASES, until_ms, id)
    if h[3] then stop[#stop + 1] = 'cancelled ' .. id end
  else
    stop[#stop + 1] = 'lost ' .. id
  end
end
return stop

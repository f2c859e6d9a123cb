-- Take back the attempt of a claim whose leg was lost before it ran: that is no sign of poison, though its number is used.
-- Where nobody has taken the leg since, it can be claimed again at once. The same fence again changes nothing.
-- KEYS job
-- ARGV id, fence, leg
local h = redis.call('HMGET', job, 'status', 'fence', 'leg', 'attempts', 'refunded', 'owner', 'given_back')
local count = tonumber(string.match(fence, '^%d+'))   -- of which a server that went back may know nothing
if not h[1] or TERMINAL[h[1]] or h[3] ~= leg or h[5] == fence or count > tonumber(h[2]) then return {'stale'} end
redis.call('HSET', job, 'given_back', math.min(tonumber(h[4]), (h[7] or 0) + 1), 'refunded', fence)
if h[1] ~= 'running' or fence_of(h[2], h[6]) ~= fence then return {'refunded'} end
forget(id, job)
push(id, job)
return {'ok'}

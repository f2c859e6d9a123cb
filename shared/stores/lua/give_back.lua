-- Take back the attempt of a claim whose leg was lost before it ran: that is no fault of the leg, though its number is used.
-- Where nobody has taken the leg since, it can be claimed again at once. The same fence again changes nothing.
-- KEYS job
-- ARGV id, fence, leg
local this = read(id, job, 'status', 'fence', 'leg', 'attempts', 'refunded', 'owner', 'given_back', PUSHED)
local count = tonumber(string.match(fence, '^%d+'))   -- of which a server that went back may know nothing
if not this.status or TERMINAL[this.status] or this.leg ~= leg or this.refunded == fence or count > tonumber(this.fence) then
  return {'stale'}
end
put(this, 'given_back', math.min(tonumber(this.attempts), (this.given_back or 0) + 1), 'refunded', fence)
if this.status ~= 'running' or fence_of(this.fence, this.owner) ~= fence then
  save(this)
  return {'refunded'}
end
forget(this)
push(this)
return {'ok'}

-- Take the leg: count an attempt, take the lease, record the start (in which \1 stands for the attempt), return what the
-- worker needs.
-- KEYS job, journal, blobs, session, messages, inbox, state, root
-- ARGV id, leg, handoff, owner, lease_ms, version, alone_from, aside_ms, records...
local h = redis.call('HMGET', job, 'status', 'leg', 'handoff', 'owner', 'v', 'attempts', 'ttl', 'cancel', 'given_back')
if not h[1] then return {'gone'} end
if tonumber(h[5]) > tonumber(version) then return {'too_new'} end
if TERMINAL[h[1]] then return {'finished'} end
if h[2] ~= leg or h[3] ~= handoff then return {'stale'} end
if h[1] == 'suspended' or h[1] == 'waiting' then return {h[1]} end
local mine = h[1] == 'running' and h[4] == owner   -- the reply to this very claim was lost
if h[1] == 'running' and not mine and is_leased(id) then return {'busy'} end
if h[6] - (h[9] or 0) >= tonumber(alone_from) and not mine and not h[8] then
  if aside_ms == '0' then return {'poisonous'} end
  forget(id, job)   -- nobody has room to run it alone: it waits where it costs nothing
  suspend(id, job, 'quarantine')
  enlist(TIMERS, id, aside_ms)
  return {'aside'}
end
if not mine then
  redis.call('HINCRBY', job, 'fence', 1)
  local attempt = redis.call('HINCRBY', job, 'attempts', 1)
  ARGV[records.from] = string.gsub(ARGV[records.from], '\1', tostring(attempt))
  record(job, journal, records)
end
forget(id, job)
redis.call('HSET', job, 'status', 'running', 'owner', owner, 'v', version)
enlist(LEASES, id, lease_ms)
keep(h[7], unpack(KEYS))
local f = redis.call('HMGET', job, 'fence', 'attempts', 'context', 'seq', 'used_ms', 'catalog', 'cwd', 'cancel')
local variables = tostring(redis.call('HLEN', state))
local untrusted = redis.call('HGET', session, 'untrusted') or ''
return {'ok', fence_of(f[1], owner), f[2], f[3], f[4], f[5], f[6] or '', f[7] or '', f[8] or '', variables, used_up(root), untrusted}

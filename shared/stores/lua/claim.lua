-- Take the leg: count an attempt, take the lease, record the start, return what the worker needs.
-- KEYS job, journal, blobs, session, messages, inbox, state, root job
-- ARGV id, leg, handoff id, owner, lease ms, version, alone from, aside ms, record (\1: the attempt)
local job = KEYS[1]
local h = redis.call('HMGET', job, 'status', 'leg', 'handoff', 'owner', 'v', 'attempts', 'ttl', 'cancel', 'given_back')
if not h[1] then return {'gone'} end
if tonumber(h[5]) > tonumber(ARGV[6]) then return {'too_new'} end
if TERMINAL[h[1]] then return {'finished'} end
if h[2] ~= ARGV[2] or h[3] ~= ARGV[3] then return {'stale'} end
if h[1] == 'suspended' or h[1] == 'waiting' then return {h[1]} end
local mine = h[1] == 'running' and h[4] == ARGV[4]   -- the reply to this very claim was lost
if h[1] == 'running' and not mine and is_leased(ARGV[1]) then return {'busy'} end
if h[6] - (h[9] or 0) >= tonumber(ARGV[7]) and not mine and not h[8] then
  if ARGV[8] == '0' then return {'quarantined'} end
  forget(ARGV[1], job)   -- nobody has room to run it alone: it waits where it costs nothing
  suspend(ARGV[1], job, 'quarantine')
  enlist(TIMERS, ARGV[1], ARGV[8])
  return {'deferred'}
end
if not mine then
  redis.call('HINCRBY', job, 'fence', 1)
  local attempt = redis.call('HINCRBY', job, 'attempts', 1)
  ARGV[9] = string.gsub(ARGV[9], '\1', tostring(attempt))
  record(job, KEYS[2], 9, 9)
end
forget(ARGV[1], job)
redis.call('HSET', job, 'status', 'running', 'owner', ARGV[4], 'v', ARGV[6])
enlist(LEASES, ARGV[1], ARGV[5])
keep(h[7], unpack(KEYS))
local f = redis.call('HMGET', job, 'fence', 'attempts', 'context', 'seq', 'used_ms', 'catalog', 'cwd', 'cancel')
local variables = tostring(redis.call('HLEN', KEYS[7]))
local untrusted = redis.call('HGET', KEYS[4], 'untrusted') or ''
return {'ok', fence_of(f[1], ARGV[4]), f[2], f[3], f[4], f[5], f[6] or '', f[7] or '', f[8] or '', variables, used_up(KEYS[8]), untrusted}

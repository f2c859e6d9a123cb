-- Take the leg: count an attempt, take the lease, return what the worker needs.
-- KEYS job, journal, session, leases, queued index
-- ARGV id, leg, handoff id, owner, lease ms, version, ttl
local h = redis.call('HMGET', KEYS[1], 'status', 'leg', 'handoff', 'owner', 'lease_ms', 'v')
if not h[1] then return {'gone'} end
if tonumber(h[6]) > tonumber(ARGV[6]) then return {'too_new'} end
if TERMINAL[h[1]] then return {'finished'} end
if h[2] ~= ARGV[2] or h[3] ~= ARGV[3] then return {'stale'} end
if h[1] == 'suspended' then return {'suspended'} end
local mine = h[1] == 'running' and h[4] == ARGV[4]   -- the reply to this very claim was lost
if h[1] == 'running' and not mine and tonumber(h[5]) > now then return {'busy'} end
local until_ms = string.format('%.0f', now + ARGV[5])
if not mine then
  redis.call('HINCRBY', KEYS[1], 'fence', 1)
  redis.call('HINCRBY', KEYS[1], 'attempts', 1)
end
redis.call('HSET', KEYS[1], 'status', 'running', 'owner', ARGV[4], 'lease_ms', until_ms)
redis.call('ZADD', KEYS[4], until_ms, ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])
keep(ARGV[7], KEYS[1], KEYS[2], KEYS[3])
local f = redis.call('HMGET', KEYS[1], 'fence', 'attempts', 'context', 'seq', 'used_ms', 'catalog', 'cwd', 'cancel')
return {'ok', f[1], f[2], f[3], f[4], f[5], f[6] or '', f[7] or '', f[8] or ''}

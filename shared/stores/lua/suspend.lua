-- Give the lease up until a timer wakes the leg. Waiting is no failed attempt: it is refunded.
-- KEYS job, journal, blobs, session, messages, inbox, catalog
-- ARGV id, fence, leg, commit, delay ms, records...
local no = refusal(KEYS[1], ARGV[2], ARGV[3], ARGV[4])
if no then return no end
local h = redis.call('HMGET', KEYS[1], 'cancel', 'ttl', 'attempts')
if h[1] then return {'cancelled', h[1]} end
record(KEYS[1], KEYS[2], 6, #ARGV)
redis.call('HSET', KEYS[1], 'status', 'suspended')
redis.call('HSET', KEYS[1], 'attempts', math.max(0, h[3] - 1))
redis.call('HDEL', KEYS[1], 'owner', 'lease_ms')
redis.call('ZREM', LEASES, ARGV[1])
redis.call('ZADD', TIMERS, now + ARGV[5], ARGV[1])
keep(h[2] + math.ceil(ARGV[5] / 1000), unpack(KEYS))
return settle(KEYS[1], ARGV[3], ARGV[4], 'ok')

-- Give the lease up until a timer wakes the leg. Waiting is no failed attempt: it is refunded.
-- KEYS job, journal, leases, timers  ARGV id, fence, leg, commit, delay ms, ttl, record
local no = refusal(KEYS[1], ARGV[2], ARGV[3], ARGV[4])
if no then return no end
if redis.call('HGET', KEYS[1], 'cancel') then return {'cancelled'} end
record(KEYS[1], KEYS[2], 7, 1)
redis.call('HSET', KEYS[1], 'status', 'suspended')
redis.call('HINCRBY', KEYS[1], 'attempts', -1)
redis.call('HDEL', KEYS[1], 'owner', 'lease_ms')
redis.call('ZREM', KEYS[3], ARGV[1])
redis.call('ZADD', KEYS[4], now + ARGV[5], ARGV[1])
keep(ARGV[6], KEYS[1], KEYS[2])
return settle(KEYS[1], ARGV[3], ARGV[4], 'ok')

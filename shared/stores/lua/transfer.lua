-- Move control on: check depth and cycles, advance the chain, push the next leg's message. One step, no window.
-- KEYS job, journal, catalog
-- ARGV id, fence, leg, commit, is route, from, to, max depth, cycles, may return, handoff id, context, queue, message,
--      catalog, record
local id, job, to = ARGV[1], KEYS[1], ARGV[7]
local no = refusal(job, ARGV[2], ARGV[3], ARGV[4])
if no then return no end
local cancel = redis.call('HGET', job, 'cancel')
if cancel then return {'cancelled', cancel} end

local edge = 'edge:' .. ARGV[6] .. '\0' .. to
if ARGV[5] == '0' then
  local h = redis.call('HMGET', job, 'depth', 'visits:' .. to, 'came_from', edge)
  local depth, visits, crossed = tonumber(h[1]), tonumber(h[2] or '0'), tonumber(h[4] or '0')
  if depth + 1 > tonumber(ARGV[8]) then return {'refused', 'MAX_DEPTH_EXCEEDED', tostring(depth)} end
  if visits > 0 then
    local limit = string.match(ARGV[9], '^limit:(%d+)$')
    local returns = ARGV[9] == 'parent' and ARGV[10] == '1' and h[3] == to and crossed < 2
    if not returns and not (limit and visits < tonumber(limit)) then
      return {'refused', 'CIRCULAR_HANDOFF', tostring(visits)}
    end
  end
  redis.call('HSET', job, 'depth', depth + 1)
end
redis.call('HINCRBY', job, edge, 1)
redis.call('HINCRBY', job, 'visits:' .. to, 1)
record(job, KEYS[2], 16, #ARGV)
redis.call('HSET', job, 'leg', tonumber(ARGV[3]) + 1, 'agent', to, 'came_from', ARGV[6], 'handoff', ARGV[11], 'context', ARGV[12],
  'queue', ARGV[13], 'message', ARGV[14], 'catalog', ARGV[15], 'attempts', 0, 'used_ms', 0)
redis.call('HDEL', job, 'owner', 'lease_ms')
redis.call('ZREM', LEASES, id)
keep(redis.call('HGET', job, 'ttl'), KEYS[3])
push(id, job)
return settle(job, ARGV[3], ARGV[4], 'ok')

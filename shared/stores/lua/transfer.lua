-- Move control on: check depth, cycles and budget, advance the chain, push the next leg's message. One step, no window.
-- kind: route, handoff, or return; identity names what a handoff says; left are the agents that leave the chain.
-- KEYS job, journal, catalog, root, state, session
-- ARGV id, fence, leg, seq, commit, kind, origin, to, max_depth, cycles, may_return, handoff, context, queue,
--      message, digest, definition, identity, max_tokens, max_micro, variables..., left..., records...
local no = refusal(job, fence, leg, seq, commit)
if no then return no end
local cancel = redis.call('HGET', job, 'cancel')
if cancel then return {'cancelled', cancel} end

local edge, handed = 'edge:' .. origin .. '\0' .. to, 'handed:' .. identity

local function why_not()
  local h = redis.call('HMGET', job, 'depth', 'visits:' .. to, 'came_from', edge, handed)
  local depth, visits, crossed = tonumber(h[1]), tonumber(h[2] or '0'), tonumber(h[4] or '0')
  if definition ~= '' and redis.call('HEXISTS', catalog, definition) == 0 then return 'UNKNOWN_DEFINITION' end
  if depth + 1 > tonumber(max_depth) then return 'MAX_DEPTH_EXCEEDED' end
  if visits > 0 then
    local limit = string.match(cycles, '^limit:(%d+)$')
    local returns = cycles == 'parent' and may_return == '1' and h[3] == to and crossed < 2
    if not returns and not (limit and visits < tonumber(limit)) then return 'CIRCULAR_HANDOFF' end
  end
  if h[5] then return 'REPEATED_HANDOFF' end
  if used_up(root) ~= '' then return 'BUDGET_EXCEEDED' end
  redis.call('HSET', job, 'depth', depth + 1, handed, 1)
end

if kind == 'handoff' then
  local code = why_not()
  if code then return {'refused', code} end
end
if kind ~= 'return' then   -- which is no new visit
  redis.call('HINCRBY', job, edge, 1)
  redis.call('HINCRBY', job, 'visits:' .. to, 1)
end
if kind == 'route' then redis.call('HSETNX', session, 'first_agent', to) end   -- who got the session's first message
if max_tokens ~= '' then redis.call('HSET', root, 'max_tokens', max_tokens) end
if max_micro ~= '' then redis.call('HSET', root, 'max_micro', max_micro) end
set_state(state, variables)
for i = left.from, left.to do redis.call('HINCRBY', job, 'visits:' .. ARGV[i], -1) end
record(job, journal, records)
redis.call('HSET', job, 'leg', tonumber(leg) + 1, 'agent', to, 'came_from', origin, 'handoff', handoff, 'context', context,
  'queue', queue, 'message', message, 'catalog', digest, 'attempts', 0, 'given_back', 0, 'used_ms', 0)
redis.call('HDEL', job, 'owner')
redis.call('ZREM', LEASES, id)
keep(redis.call('HGET', job, 'ttl'), catalog)
push(id, job)
return settle(job, leg, commit, 'ok')

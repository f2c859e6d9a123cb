-- Move control on: check depth, cycles and budget, advance the chain, push the next leg's message. One step, no window.
-- KEYS job, journal, catalog, root job, state, session
-- ARGV id, fence, leg, seq, commit, kind (route, handoff, return), from, to, max depth, cycles, may return, handoff id,
--      context, queue, message, catalog, definition, identity, max tokens, max micro-USD, n, variables..., n, agents that
--      have left the chain..., records...
local id, job, kind, to = ARGV[1], KEYS[1], ARGV[6], ARGV[8]
local no = refusal(job, ARGV[2], ARGV[3], ARGV[4], ARGV[5])
if no then return no end
local cancel = redis.call('HGET', job, 'cancel')
if cancel then return {'cancelled', cancel} end

local edge, handed = 'edge:' .. ARGV[7] .. '\0' .. to, 'handed:' .. ARGV[18]

local function why_not()
  local h = redis.call('HMGET', job, 'depth', 'visits:' .. to, 'came_from', edge, handed)
  local depth, visits, crossed = tonumber(h[1]), tonumber(h[2] or '0'), tonumber(h[4] or '0')
  if ARGV[17] ~= '' and redis.call('HEXISTS', KEYS[3], ARGV[17]) == 0 then return 'UNKNOWN_DEFINITION' end
  if depth + 1 > tonumber(ARGV[9]) then return 'MAX_DEPTH_EXCEEDED' end
  if visits > 0 then
    local limit = string.match(ARGV[10], '^limit:(%d+)$')
    local returns = ARGV[10] == 'parent' and ARGV[11] == '1' and h[3] == to and crossed < 2
    if not returns and not (limit and visits < tonumber(limit)) then return 'CIRCULAR_HANDOFF' end
  end
  if h[5] then return 'REPEATED_HANDOFF' end
  if used_up(KEYS[4]) ~= '' then return 'BUDGET_EXCEEDED' end
  redis.call('HSET', job, 'depth', depth + 1, handed, 1)
end

if kind == 'handoff' then
  local code = why_not()
  if code then return {'refused', code} end
end
if kind ~= 'return' then   -- which is no new turn of the agent
  redis.call('HINCRBY', job, edge, 1)
  redis.call('HINCRBY', job, 'visits:' .. to, 1)
end
if kind == 'route' then redis.call('HSETNX', KEYS[6], 'first_agent', to) end   -- who got the session's first message
if ARGV[19] ~= '' then redis.call('HSET', KEYS[4], 'max_tokens', ARGV[19]) end
if ARGV[20] ~= '' then redis.call('HSET', KEYS[4], 'max_micro', ARGV[20]) end
local left = set_state(KEYS[5], 21)
local first = left + 1 + tonumber(ARGV[left])
for i = left + 1, first - 1 do redis.call('HINCRBY', job, 'visits:' .. ARGV[i], -1) end
record(job, KEYS[2], first, #ARGV)
redis.call('HSET', job, 'leg', tonumber(ARGV[3]) + 1, 'agent', to, 'came_from', ARGV[7], 'handoff', ARGV[12], 'context', ARGV[13],
  'queue', ARGV[14], 'message', ARGV[15], 'catalog', ARGV[16], 'attempts', 0, 'given_back', 0, 'used_ms', 0)
redis.call('HDEL', job, 'owner')
redis.call('ZREM', LEASES, id)
keep(redis.call('HGET', job, 'ttl'), KEYS[3])
push(id, job)
return settle(job, ARGV[3], ARGV[5], 'ok')

-- Move control on: check depth, cycles and budget, advance the chain, push the next leg's message. One step, no window.
-- kind: route, handoff, return, or edge (of a graph: it may go anywhere, and sets the depth); identity names what a handoff
-- says; left are the agents that leave the chain. A graph that takes a step waits for none of its branches any more.
-- KEYS job, journal, catalog, root, state, session
-- ARGV id, fence, leg, seq, commit, kind, origin, to, depth_there, max_depth, cycles, may_return, handoff, context, queue,
--      message, digest, definition, identity, is_untrusted, tokens, micro_usd, turns, used_ms, used..., limits...,
--      variables..., left..., records...
local edge, handed, visit = 'edge:' .. origin .. '\0' .. to, 'handed:' .. identity, 'visits:' .. to
local this = read(id, job, FENCED, BUDGET, PUSHED, 'depth', 'need', 'came_from', 'ttl', 'kept_ms', 'catalog', 'used_ms', edge,
  handed, visit, 'commit:' .. leg)
local no = repeated(this, leg, commit) or refusal(this, fence, leg, seq)
if no then return no end
if this.cancel then return {'cancelled', this.cancel} end

local purse, depth, visits, crossed = purse_of(this, root), this.depth + 1, this[visit] or 0, this[edge] or 0
spend(this, purse, tokens, micro_usd, turns, used_ms)

local function why_not()
  if definition ~= '' and call('HEXISTS', catalog, definition) == 0 then return 'UNKNOWN_DEFINITION' end
  if depth > tonumber(max_depth) then return 'MAX_DEPTH_EXCEEDED' end
  if tonumber(visits) > 0 then
    local limit = string.match(cycles, '^limit:(%d+)$')
    local returns = cycles == 'parent' and may_return == '1' and this.came_from == to and tonumber(crossed) < 2
    if not returns and not (limit and tonumber(visits) < tonumber(limit)) then return 'CIRCULAR_HANDOFF' end
  end
  if this[handed] then return 'REPEATED_HANDOFF' end
  local _, is_used_up = spending(purse, session)
  if is_used_up then return 'BUDGET_EXCEEDED' end
end

if kind == 'handoff' then
  local code = why_not()
  if code then return {'refused', code} end
  put(this, 'depth', depth, handed, 1)
elseif kind == 'edge' then
  put(this, 'depth', depth_there)
  abandon(this)
end
for i = left.from, left.to do
  if ARGV[i] == to then visits = visits - 1 else call('HINCRBY', job, 'visits:' .. ARGV[i], -1) end
end
put(this, visit, kind == 'return' and visits or visits + 1)   -- a return is no new visit
if kind == 'route' or kind == 'handoff' then put(this, edge, crossed + 1) end
if kind == 'route' then call('HSETNX', session, 'first_agent', to) end   -- who got the session's first message
for i = limits.from, limits.to, 2 do put(purse, 'max_' .. ARGV[i], ARGV[i + 1]) end   -- which the route sets
account(this, purse, session, used)
count_leg(purse)
if purse ~= this then save(purse) end
distrust(this, session, is_untrusted)
set_state(state, variables, this.ttl)
record(this, journal, records)
if this.catalog ~= digest or is_due(this) then keep(this.ttl, catalog) end
forget(this)
put(this, 'leg', leg + 1, 'agent', to, 'came_from', origin, 'handoff', handoff, 'context', context, 'queue', queue,
  'message', message, 'catalog', digest, 'attempts', 0, 'given_back', 0, 'used_ms', 0, 'commit:' .. leg, commit .. ' ok')
push(this)
return {'ok'}

-- Reserve a call of a model that has a limit, or take a place among the jobs that wait for one. A job that was woken for it
-- has its reservation. Users take turns: who has many jobs stands further behind with each (start-time fair queueing; what
-- counts is the part of the limit that a call takes).
-- queues: 1 takes a place where there is no room; 0 only asks. estimate: tokens; what calls take beyond that is learned.
-- fence: of the job's claim; what an earlier one holds is a dead worker's, and what a later one holds is not to be had.
-- KEYS limit
-- ARGV id, fence, session, name, rpm, tpm, concurrent, estimate, queues
call('HSET', limit, 'name', name, 'rpm', rpm, 'tpm', tpm, 'concurrent', concurrent)
local this = limit_at(limit)
local waiting, users, asked = limit .. ':waiting', limit .. ':users', limit .. ':asked'
local held = call('HGET', limit .. ':held', id)
local since, reserved = string.match(held or '', '^%+(%d+) (%d+)$')
if since then   -- it counts from now on
  limit_count(this, since, -1, -reserved)
  limit_count(this, whole(this.second), 1, reserved)
  limit_save(this)
  held = whole(this.second) .. ' ' .. reserved .. ' ' .. fence
  call('HSET', limit .. ':held', id, held)
  call('ZADD', limit .. ':slots', now + SLOT_MS, id)
  return {'ok', held}
end
if held and holder_of(held) ~= fence then
  if is_owned(id, held) then return {'wait', whole(SLOT_FREES_MS), '', whole(SLOT_FREES_MS)} end
  limit_release(this, id)
end

local size = math.ceil(math.max(1, estimate + (this.beyond or 0)))
if this.tpm then size = math.min(size, this.tpm) end
local wait, part = limit_wait(this, size)
local place, others = call('ZSCORE', waiting, id), call('ZCARD', waiting)
if wait == 0 and not place and others == 0 then
  held = whole(this.second) .. ' ' .. whole(size) .. ' ' .. fence
  limit_hold(this, id, size, held, SLOT_MS)
  limit_save(this)
  return {'ok', held}
end
limit_save(this)
local share = math.max(this.rpm and 1 / this.rpm or 0, this.tpm and size / this.tpm or 0)
local turn, weight = tonumber(this.turn or 0), share > 0 and share or 1
local user = call('HGET', session, 'user') or ''
local known = call('ZSCORE', users, user)
local mine = place or math.max(turn, known or 0) + weight

-- How long it takes, about, until those in front have had their calls and there is room. Who has few jobs is let in between.
local slots_ms = this.concurrent and (this.lasts_ms or 0) / this.concurrent or 0
local by_turns = (mine - turn) / weight * (call('ZCARD', users) + (known and 0 or 1)) - 1
local in_front = math.max(0, math.min(by_turns, others - (place and 1 or 0)))
local first = part == 'concurrent' and math.max(wait, slots_ms) or wait
local told = whole(first + in_front * math.max(share * 60000, slots_ms))

if queues == '0' then return {others > 0 and 'behind' or 'wait', told, part, whole(wait)} end
if not place then
  call('ZADD', users, mine, user)
  call('ZADD', waiting, mine, id)
  call('HSET', asked, id, whole(size))
  for _, key in ipairs({waiting, users, asked, limit}) do call('EXPIRE', key, TTL_S) end
  redis.call('SADD', LIMITED, limit)
end
return {'queued', told, part, whole(wait)}

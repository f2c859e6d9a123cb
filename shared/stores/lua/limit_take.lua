-- Reserve a call of a model that has a limit, or take a place among the jobs that wait for one. A job that was woken for it
-- has its reservation. Users take turns: who has many jobs stands further behind with each (start-time fair queueing; what
-- counts is the part of the limit that a call takes).
-- queues: 1 takes a place where there is no room; 0 only asks. estimate: tokens; what calls take beyond that is learned.
-- KEYS limit
-- ARGV id, session, name, rpm, tpm, concurrent, estimate, queues
call('HSET', limit, 'name', name, 'rpm', rpm, 'tpm', tpm, 'concurrent', concurrent)
local this = limit_at(limit)
local waiting, users, asked = limit .. ':waiting', limit .. ':users', limit .. ':asked'
local held = call('HGET', limit .. ':held', id)
local since, reserved = string.match(held or '', '^%+(%d+) (%d+)$')
if since then   -- it counts from now on
  limit_count(this, since, -1, -reserved)
  limit_count(this, whole(this.second), 1, reserved)
  limit_save(this)
  held = whole(this.second) .. ' ' .. reserved
  call('HSET', limit .. ':held', id, held)
  call('ZADD', limit .. ':slots', now + SLOT_MS, id)
  return {'ok', held}
end

local size = math.ceil(math.max(1, estimate + (this.beyond or 0)))
if this.tpm then size = math.min(size, this.tpm) end
local wait, part = limit_wait(this, size)
local place, others = call('ZSCORE', waiting, id), call('ZCARD', waiting)
if wait == 0 and not place and others == 0 then
  limit_hold(this, id, size, '', SLOT_MS)
  limit_save(this)
  return {'ok', whole(this.second) .. ' ' .. whole(size)}
end
limit_save(this)
if queues == '0' then return {others > 0 and 'behind' or 'wait', whole(wait), part} end
local share = math.max(this.rpm and 1 / this.rpm or 0, this.tpm and size / this.tpm or 0)
if share == 0 then share = 1 end
local turn = tonumber(this.turn or 0)
if not place then
  local user = call('HGET', session, 'user') or ''
  place = math.max(turn, call('ZSCORE', users, user) or 0) + share
  call('ZADD', users, place, user)
  call('ZADD', waiting, place, id)
  call('HSET', asked, id, whole(size))
  for _, key in ipairs({waiting, users, asked, limit}) do call('EXPIRE', key, TTL_S) end
  redis.call('SADD', LIMITED, limit)
end
local minutes = math.min((place - turn) * call('ZCARD', users), (others + 1) * share)
return {'queued', whole(math.max(wait, (this.rpm or this.tpm) and minutes * 60000 or 0)), part}

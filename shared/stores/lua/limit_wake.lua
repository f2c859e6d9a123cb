-- Reserve calls for the jobs that wait for a limit, in their order, as far as there is room, and let the sweeper wake them.
-- most: jobs that are woken for each limit, and read at once.
-- ARGV grant_ms, most
local woken = {}
local function status_of(id)
  local found = call('HMGET', key_of(id), 'status', 'cause')
  return found[1], found[2]
end

-- Give the job its call, if it waits for one. Answers what becomes of its place: 'gone', 'kept', or 'full': no room.
local function serve(this, id, waiting, asked)
  local status, cause = status_of(id)
  if status and not TERMINAL[status] then
    if status ~= 'suspended' then return 'kept' end   -- it is on its way, to its pause or from it
    if cause == 'limit' then
      local size = tonumber(call('HGET', asked, id) or 1)
      if limit_wait(this, size) > 0 then return 'full' end
      put(this, 'turn', call('ZSCORE', waiting, id))
      limit_hold(this, id, size, '+' .. whole(this.second) .. ' ' .. whole(size), grant_ms)
      woken[#woken + 1] = id
      redis.call('ZADD', TIMERS, now + #woken / 1000 - 1, id)
    end   -- else it waits for something else: when it asks again it takes a new place
  end
  call('ZREM', waiting, id)
  call('HDEL', asked, id)
  return 'gone'
end

-- Those that keep their place, however many, hold up nobody behind them.
local function serve_all(this, waiting, asked)
  local kept, last = 0, #woken + most
  while true do
    local ids = call('ZRANGE', waiting, kept, kept + most - 1)
    for _, id in ipairs(ids) do
      local place = #woken < last and serve(this, id, waiting, asked) or 'full'
      if place == 'full' then return end
      if place == 'kept' then kept = kept + 1 end
    end
    if #ids == 0 then return end
  end
end

local function wake(limit)
  local this, waiting, asked = limit_at(limit), limit .. ':waiting', limit .. ':asked'
  limit_prune(this)
  serve_all(this, waiting, asked)
  if call('ZCARD', waiting) == 0 then
    call('DEL', limit .. ':users', asked)
    drop(this, 'turn')
    redis.call('SREM', LIMITED, limit)
  elseif this.turn then
    call('ZREMRANGEBYSCORE', limit .. ':users', '-inf', this.turn)
  end
  limit_save(this)
end

-- What another program has written in the place of one limit keeps nobody from another: it is told and left alone, until
-- the next call asks for that limit.
for _, limit in ipairs(redis.call('SMEMBERS', LIMITED)) do
  local is_done, why = pcall(wake, limit)
  if not is_done then
    local said = type(why) == 'table' and why.err or why
    bury(LIMITED, 'the limit ' .. limit .. ' cannot be read: ' .. tostring(said), '')
    redis.call('SREM', LIMITED, limit)
  end
end
return woken

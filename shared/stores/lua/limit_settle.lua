-- End a reservation: count what the call used in place of what was reserved, or give it back where it failed (used '').
-- A provider that wants to be left alone is left alone by everybody: for blocked_ms; 'more': longer each time; '': it does not.
-- KEYS limit
-- ARGV id, held, estimate, used, blocked_ms
local this = limit_at(limit)
if call('HGET', limit .. ':held', id) == held then   -- else it is somebody else's by now, after a death
  call('HDEL', limit .. ':held', id)
  call('ZREM', limit .. ':slots', id)
end
local second, size = string.match(held, '^(%d+) (%d+)')
local more, count = (tonumber(used) or 0) - size, used == '' and -1 or 0
limit_count(this, second, count, more)
if this.rpm then this.calls_left = this.calls_left - count end
-- What a server says that a call used need not be true: it costs the others a minute at most, and no call is taken to
-- need more than all.
if this.tpm then this.tokens_left = math.max(-this.tpm, this.tokens_left - more) end
if used ~= '' then
  local beyond, most = tonumber(this.beyond or 0), this.tpm or math.huge
  put(this, 'beyond', math.min(most, beyond + (math.min(most, used) - estimate - beyond) / 8))
  local lasts = math.max(0, now - second * 1000)
  put(this, 'lasts_ms', whole(this.lasts_ms and this.lasts_ms + (lasts - this.lasts_ms) / 8 or lasts))
  if this.refusals then drop(this, 'refusals') end
end
if blocked_ms == 'more' then
  local refusals = tonumber(this.refusals or 0)
  put(this, 'refusals', refusals + 1)
  blocked_ms = math.min(60000, 1000 * 2 ^ refusals)
end
if blocked_ms ~= '' then put(this, 'blocked_ms', whole(math.max(this.blocked_ms or 0, now + blocked_ms))) end
limit_save(this)
return {'ok'}

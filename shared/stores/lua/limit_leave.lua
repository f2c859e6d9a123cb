-- Give up what a job has at limits, since another model serves it: its place among those who wait, the call that it was
-- woken for, the slot of a worker of its that has died.
-- KEYS limits...
-- ARGV id
for at = limits.from, limits.to do
  local limit = KEYS[at]
  call('ZREM', limit .. ':waiting', id)
  call('HDEL', limit .. ':asked', id)
  if call('HEXISTS', limit .. ':held', id) == 1 then
    local this = limit_at(limit)
    limit_release(this, id)
    limit_save(this)
  end
end
return {'ok'}

-- Give up what a job has at limits, since another model serves it: its place among those who wait, the call that it was
-- woken for, the slot of a worker of its that has died.
-- fence: of the job's claim; what a later one holds is that one's.
-- KEYS limits...
-- ARGV id, fence
for at = limits.from, limits.to do
  local limit = KEYS[at]
  call('ZREM', limit .. ':waiting', id)
  call('HDEL', limit .. ':asked', id)
  local held = call('HGET', limit .. ':held', id)
  if held and (holder_of(held) == fence or not is_owned(id, held)) then
    local this = limit_at(limit)
    limit_release(this, id)
    limit_save(this)
  end
end
return {'ok'}

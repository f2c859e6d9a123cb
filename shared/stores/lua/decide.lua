-- Decide an approval once and for all: a person, or a sweeper where nobody did in time (status expired). The leg goes on when
-- it waits for no other. The same decision again (same token) changes nothing.
-- passed_ms: the relay time that a sweeper has followed; '' from persons.
-- KEYS job, journal, approvals
-- ARGV id, n, seq, token, digest, status, passed_ms, decided, records...
local this = read(id, job, 'seq', 'cancel', 'waits', PUSHED)
local told = call('HGET', approvals, n .. ':end')
if told then return {string.find(told, ' ' .. token .. ' ', 1, true) and 'ok' or 'decided'} end
if not this.status or this.cancel or this.status ~= 'suspended' then return {'gone'} end
local left = {}
for other in string.gmatch(this.waits or '', '%d+') do if other ~= n then left[#left + 1] = other end end
local expires = listed_at(APPROVALS, id .. ':' .. n)
if expires == 0 then return {'gone'} end
if call('HGET', approvals, n .. ':digest') ~= digest then return {'another'} end
if status == 'expired' then
  if expires > tonumber(passed_ms) then return {'busy'} end
elseif expires <= now and is_vouched_for then
  return {'expired'}
end
if this.seq ~= seq then return {'moved'} end

call('HSET', approvals, n .. ':end', status .. ' ' .. stamp .. ' ' .. token .. ' ' .. decided)
redis.call('ZREM', APPROVALS, id .. ':' .. n)
record(this, journal, records)
if #left > 0 then
  put(this, 'waits', table.concat(left, ' '))
  save(this)
  await_answers(this)
else
  drop(this, 'waits')
  forget(this)
  push(this)
end
return {'ok'}

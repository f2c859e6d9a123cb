-- Take requests out of the intake, to be served within so long: those first that another dispatcher took and has not
-- served in its time. Answers digest and text of each; a text that is too long is cut behind the most.
-- KEYS intake  ARGV how many, ms, most bytes
local due = redis.call('ZRANGEBYSCORE', INTAKE_TAKEN, '-inf', whole(now), 'LIMIT', 0, ARGV[1])
clear_the_way(KEYS[1])
while #due < tonumber(ARGV[1]) do
  local text = redis.call('RPOP', KEYS[1])
  if not text then break end
  due[#due + 1] = server.sha1hex(text)
  redis.call('HSET', INTAKE_TEXTS, due[#due], text)
end
local found = {}
for _, digest in ipairs(due) do
  enlist(INTAKE_TAKEN, digest, ARGV[2])
  found[#found + 1] = digest
  found[#found + 1] = string.sub(redis.call('HGET', INTAKE_TEXTS, digest) or '', 1, ARGV[3] + 1)
end
return found

-- Take requests out of the intake, to be served within so long: those first that another dispatcher took and has not
-- served in its time. Answers digest and text of each; of a text that is too long nothing but its beginning is looked at.
-- KEYS intake  ARGV how many, ms, most bytes of one, bytes behind which no more are taken
local found, bytes = {}, 0
local function take(digest, text, length)
  enlist(INTAKE_TAKEN, digest, ARGV[2])
  found[#found + 1] = digest
  found[#found + 1] = text
  bytes = bytes + length
end
local function is_full() return #found >= 2 * ARGV[1] or bytes >= tonumber(ARGV[4]) end

for _, digest in ipairs(redis.call('ZRANGEBYSCORE', INTAKE_TAKEN, '-inf', whole(now), 'LIMIT', 0, ARGV[1])) do
  if is_full() then break end
  local text = redis.call('HGET', INTAKE_TEXTS, digest) or ''
  take(digest, text, #text)
end
clear_the_way(KEYS[1])
while not is_full() do
  local text = redis.call('RPOP', KEYS[1])
  if not text then break end
  local kept = string.sub(text, 1, ARGV[3] + 1)
  local digest = server.sha1hex(kept)
  redis.call('HSET', INTAKE_TEXTS, digest, kept)
  take(digest, kept, #text)
end
return found

-- Take requests out of the intake, to be served within so long: those first that another dispatcher took and has not
-- served in its time. Answers digest and text of each; of a text that is too long nothing but its beginning is looked at.
-- KEYS intake
-- ARGV count, serve_ms, max_bytes, max_bytes_at_once
local found, bytes = {}, 0
local function take(digest, text, length)
  enlist(INTAKE_TAKEN, digest, serve_ms)
  found[#found + 1] = digest
  found[#found + 1] = text
  bytes = bytes + length
end
local function is_full() return #found >= 2 * count or bytes >= tonumber(max_bytes_at_once) end

for _, digest in ipairs(redis.call('ZRANGEBYSCORE', INTAKE_TAKEN, '-inf', whole(now), 'LIMIT', 0, count)) do
  if is_full() then break end
  local text = redis.call('HGET', INTAKE_TEXTS, digest) or ''
  take(digest, text, #text)
end
while not is_full() do
  local text = redis.call('RPOP', intake)
  if not text then break end
  local kept = string.sub(text, 1, max_bytes + 1)
  local digest = server.sha1hex(kept)
  redis.call('HSET', INTAKE_TEXTS, digest, kept)
  take(digest, kept, #text)
end
return found

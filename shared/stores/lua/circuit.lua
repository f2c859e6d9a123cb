-- Count what calls of a model come to, and tell whether one may be made. A circuit is 'failures first_ms open_ms trial_ms',
-- behind a line end what people are told; one that is not there is closed.
-- KEYS circuits
-- ARGV word, id, most, window_ms, open_ms, about
local said = redis.call('HGET', circuits, id)
local count, first, open, trial = string.match(said or '0 0 0 0', '^(%d+) (%d+) (%d+) (%d+)')
count, first, open, trial = tonumber(count or 0), tonumber(first or 0), tonumber(open or 0), tonumber(trial or 0)

-- Nobody opens a circuit for so long: what says so is not ours, and would shut the model for good.
local function believed(at) return at - now <= CIRCUIT_LONGEST_MS and at or 0 end
open, trial = believed(open), believed(trial)

local function put(told)
  local numbers = {whole(count), whole(first), whole(open), whole(trial)}
  redis.call('HSET', circuits, id, table.concat(numbers, ' ') .. '\n' .. told)
  redis.call('EXPIRE', circuits, CIRCUITS_TTL_S)
end

if word == 'worked' then
  redis.call('HDEL', circuits, id)
  return {'closed', '0'}
end
if word == 'may' then
  local shut = math.max(open, trial)
  if count < tonumber(most) then return {'closed', '0'} end
  if now < shut then return {'open', whole(shut - now)} end
  trial = now + open_ms   -- one asks, the others wait for what becomes of it; if nothing does, another one asks
  put(string.match(said, '\n(.*)$') or '')
  return {'trial', '0'}
end
if count < tonumber(most) and now - first > tonumber(window_ms) then count, first = 0, now end
count = count + (word == 'over' and most or 1)   -- 'over': no quota, which no further call would change
if count < tonumber(most) then
  put(about)
  return {'closed', '0'}
end
open, trial = math.max(open, now + open_ms), 0
put(about)
return {'open', whole(open - now)}

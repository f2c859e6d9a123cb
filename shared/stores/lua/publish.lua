-- Put a catalog in force, if the one that it is to replace still is. For a rollback it must be stored already. Where it is
-- in force already, what another program may have spoilt of it, or what is signed anew, is written again.
-- KEYS catalog in force, the new catalog, publications
-- ARGV digest, replaced ('': none), ttl, publications kept, agents, by, source, rollback, field, value, ...
local prefix = string.sub(KEYS[2], 1, #KEYS[2] - #ARGV[1])
local current = redis.call('GET', KEYS[1]) or ''
if redis.call('EXISTS', prefix .. current) == 0 then current = '' end   -- expired: nothing is in force
local function store()
  for i = 9, #ARGV, 2 do redis.call('HSET', KEYS[2], ARGV[i], ARGV[i + 1]) end
end

if current == ARGV[1] then
  store()
  keep(ARGV[3], KEYS[2])
  return {'same'}
end
if current ~= ARGV[2] then return {'moved', current} end
if ARGV[8] == '1' and redis.call('EXISTS', KEYS[2]) == 0 then return {'gone'} end

store()
redis.call('SET', KEYS[1], ARGV[1])
redis.call('XADD', KEYS[3], 'MAXLEN', ARGV[4], '*', 'digest', ARGV[1], 'replaced', current, 'agents', ARGV[5], 'by', ARGV[6],
  'source', ARGV[7], 'rollback', ARGV[8], 'at_ms', whole(wall))
keep(ARGV[3], KEYS[2])
return {'ok'}

-- Put a catalog in force, if the one that it is to replace still is. For a rollback it must be stored already. Where it is
-- in force already, what another program may have spoilt of it, or what is signed anew, is written again.
-- KEYS in_force, catalog, publications
-- ARGV digest, replaced, ttl, kept, agents, by, source, rollback, fields...
local prefix = string.sub(catalog, 1, #catalog - #digest)
local current = redis.call('GET', in_force) or ''
if call('EXISTS', prefix .. current) == 0 then current = '' end   -- expired: nothing is in force
local function store()
  for i = fields.from, fields.to, 2 do call('HSET', catalog, ARGV[i], ARGV[i + 1]) end
end

if current == digest then
  store()
  keep(ttl, catalog)
  return {'same'}
end
if current ~= replaced then return {'moved', current} end
if rollback == '1' and call('EXISTS', catalog) == 0 then return {'gone'} end

store()
redis.call('SET', in_force, digest)
redis.call('XADD', publications, 'MAXLEN', kept, '*', 'digest', digest, 'replaced', current, 'agents', agents, 'by', by,
  'source', source, 'rollback', rollback, 'at_ms', stamp)
keep(ttl, catalog)
return {'ok'}

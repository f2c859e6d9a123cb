-- Take the leg: count an attempt, take the lease, record the start (in which \1 stands for the attempt), return what the
-- worker needs; last a page of the journal, the first one or from the entry that the worker knows it up to.
-- KEYS job, journal, blobs, session, messages, older_messages, inbox, state, root
-- ARGV id, leg, handoff, owner, lease_ms, version, quarantine_from, defer_ms, known, records...
local this = read(id, job, FENCED, BUDGET, 'handoff', 'v', 'attempts', 'ttl', 'kept_ms', 'given_back', 'context', 'used_ms',
  'catalog', 'cwd', 'queue')
if not this.status then return {'gone'} end
if tonumber(this.v) > tonumber(version) then return {'too_new'} end
if TERMINAL[this.status] then return {'finished'} end
if this.leg ~= leg or this.handoff ~= handoff then return {'stale'} end
if this.status == 'suspended' or this.status == 'waiting' then return {this.status} end
local mine = this.status == 'running' and this.owner == owner   -- the reply to this very claim was lost
if this.status == 'running' and not mine and is_leased(id) then return {'busy'} end
if this.attempts - (this.given_back or 0) >= tonumber(quarantine_from) and not mine and not this.cancel then
  if defer_ms == '0' then return {'quarantined'} end
  forget(this)   -- nobody has room to run it alone: it waits where it costs nothing
  suspend(this, 'quarantine')
  save(this)
  enlist(TIMERS, id, defer_ms)
  return {'deferred'}
end
-- At most PAGE entries, each as its place, time and text, and no more behind PAGE_BYTES: who else is answered on this
-- connection waits for them.
local function page()
  local found, bytes, from = {}, 0, known == '0' and '-' or known .. '-0'
  repeat
    local rows = call('XRANGE', journal, from, '+', 'COUNT', 50)
    for i = 1, #rows do
      if bytes >= PAGE_BYTES then break end
      local fields, count = rows[i][2], #found
      local text = fields[4] or ''   -- which another program may have written
      found[count + 1], found[count + 2], found[count + 3] = rows[i][1], fields[2], text
      bytes = bytes + #text
    end
    from = #rows == 50 and '(' .. rows[50][1]
  until not from or bytes >= PAGE_BYTES or #found >= 3 * PAGE
  return found
end

if not mine then
  put(this, 'fence', this.fence + 1, 'attempts', this.attempts + 1)
  ARGV[records.from] = filled(ARGV[records.from], '\1', tostring(this.attempts))
  record(this, journal, records)
end
forget(this)
put(this, 'status', 'running', 'owner', owner, 'v', version)
keep_if_due(this, this.ttl, unpack(KEYS))
save(this)
enlist(LEASES, id, lease_ms)
return {'ok', fence_of(this.fence, owner), tostring(this.attempts), this.context, tostring(this.seq), this.used_ms,
  this.catalog or '', this.cwd or '', this.cancel or '', tostring(call('HLEN', state)), (spending(purse_of(this, root), session)),
  call('HGET', session, 'untrusted') or '', page()}

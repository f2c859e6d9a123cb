-- Take a user's name out of what was used on a day: that counts as of others from now on. What counts for a budget that runs
-- stays, under no name, or whoever is forgotten could begin anew: of today, and, where somebody has one, of the week and month.
-- KEYS day
-- ARGV user
local others, from, of_user = '\0(others)\0', #'row\0' + 1, '\0' .. user .. '\0'
for _, name in ipairs(call('HKEYS', day)) do
  local at = string.find(name, '\0', from, true)   -- behind the agent, which may be called as the user is
  if at and of_user ~= others and string.sub(name, at, at + #of_user - 1) == of_user then
    local merged = string.sub(name, 1, at - 1) .. others .. string.sub(name, at + #of_user)
    local sums, had = {}, string.gmatch(call('HGET', day, merged) or '', '%S+')
    for count in string.gmatch(call('HGET', day, name), '%S+') do
      sums[#sums + 1] = whole((tonumber(count) or 0) + (tonumber(had() or '') or 0))
    end
    call('HSET', day, merged, table.concat(sums, ' '))
    call('HDEL', day, name)
  end
end
call('HDEL', day, 'user\0' .. user)   -- as versions before had it
local today = math.floor(wall / DAY_MS)
if day ~= USAGE .. whole(today) then
  for _, per_s in ipairs({WEEK_S, MONTH_S}) do
    if call('EXISTS', SPENT_IN .. per_s .. ':' .. whole(first_day(per_s, today))) == 1 then
      beside_today(per_s, user, today, used_on(today, user))
    end
  end
  call('HDEL', day, field_of(user))
end
return {'ok'}

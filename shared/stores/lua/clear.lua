-- Put aside what stands under the names of queues and indexes and is none; answers the names.
-- KEYS names...
local cleared = {}
for i = names.from, names.to do
  local key = KEYS[i]
  if clear_the_way(key) then cleared[#cleared + 1] = key end
end
return cleared

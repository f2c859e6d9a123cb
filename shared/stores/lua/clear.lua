-- Put aside what stands under the names of queues and indexes and is none; answers the names.
-- KEYS queues and indexes
local cleared = {}
for _, key in ipairs(KEYS) do
  if clear_the_way(key) then cleared[#cleared + 1] = key end
end
return cleared

-- Put aside what stands under the names of queues and is no list; answers the names.
-- KEYS queues
local cleared = {}
for _, queue in ipairs(KEYS) do
  if clear_the_way(queue) then cleared[#cleared + 1] = queue end
end
return cleared

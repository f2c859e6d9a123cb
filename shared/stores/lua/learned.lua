-- Note that jobs have been looked at for what they teach: those that are still there.
-- KEYS jobs...
for i = jobs.from, jobs.to do
  if call('EXISTS', KEYS[i]) == 1 then call('HSET', KEYS[i], 'learned', 1) end
end
return {'ok'}

-- Keep something that was in a queue and is no message of ours.
-- ARGV queue, reason, raw
bury(queue, reason, raw)
return {'ok'}

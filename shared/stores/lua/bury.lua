-- Keep something that was in a queue and is no message of ours.
-- ARGV queue, reason, raw
bury(ARGV[1], ARGV[2], ARGV[3])
return {'ok'}

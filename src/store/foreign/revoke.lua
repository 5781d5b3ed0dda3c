-- Takes a statement back, unless another has taken its place.
--
-- KEYS[1] the statement   ARGV[1] what it was   ARGV[2] 1 if a record was found that the filter lacked
-- Returns 1 if it was there.
local on, proven, disproved, drawn = unpack(redis.call('HMGET', KEYS[1], 'on', 'proven', 'disproved', 'drawn'))
if on ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
if proven then redis.call('HSET', KEYS[1], 'proven', proven) end
if drawn then redis.call('HSET', KEYS[1], 'drawn', drawn) end
if ARGV[2] == '1' or disproved then redis.call('HSET', KEYS[1], 'disproved', '1') end
return 1

-- Takes a statement back, unless another has taken its place.
--
-- KEYS[1] the statement   ARGV[1] what it was   ARGV[2] 1 if a record was found that the filter lacked
-- Returns 1 if it was there.
local on, proven, disproved = unpack(redis.call('HMGET', KEYS[1], 'on', 'proven', 'disproved'))
if on ~= ARGV[1] then return 0 end
redis.call('DEL', KEYS[1])
if proven then redis.call('HSET', KEYS[1], 'proven', proven) end
if ARGV[2] == '1' or disproved then redis.call('HSET', KEYS[1], 'disproved', '1') end
return 1

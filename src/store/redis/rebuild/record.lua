-- Says whether the record of recent inserts is whole, once it was read.
--
-- KEYS[1] meta   KEYS[2] recent
-- ARGV[1] the incarnation of the lease
-- Returns {'OTHER'} where this is another incarnation, or {'OK', '1' if its greatest score is the last number, else '0', the
-- floor: what was inserted up to that number, µs, may be missing; '0' where it marks the incarnation's beginning}.
local meta = redis.call('HMGET', KEYS[1], 'inc', 'last', 'began')
if meta[1] ~= ARGV[1] then return {'OTHER'} end
local top = redis.call('ZREVRANGE', KEYS[2], 0, 0, 'WITHSCORES')
local floor = redis.call('ZSCORE', KEYS[2], 'floor')
local is_whole = top[2] and floor and tonumber(top[2]) == tonumber(meta[2] or '0')
local counts = floor and tonumber(floor) ~= tonumber(meta[3] or '0')
return {'OK', is_whole and '1' or '0', counts and string.format('%.0f', tonumber(floor)) or '0'}

-- Remembers that an id is missing, unless a create of it may have begun since the database was read
-- (I8).
--
-- KEYS[1] the id's null key   KEYS[2] bits
-- ARGV[1] stamp (generation ‖ nonce, 16 bytes) of the live filter the null is good for
-- ARGV[2] the generation, decimal
-- ARGV[3] life of the null, ms
-- ARGV[4] latest moment for it by Redis's clock, µs, so that a command held up on its way cannot
--         outlive the create mark
-- Returns 'OK', 'CREATED', 'LATE' or 'STALE'.
local mark = redis.call('GET', KEYS[1])
if mark and string.sub(mark, 1, 1) == 'P' then return 'CREATED' end
local time = redis.call('TIME')
if time[1] * 1000000 + time[2] > tonumber(ARGV[4]) then return 'LATE' end
if redis.call('GETRANGE', KEYS[2], 16, 31) ~= ARGV[1] then return 'STALE' end
redis.call('SET', KEYS[1], 'N' .. ARGV[2], 'PX', ARGV[3])
return 'OK'

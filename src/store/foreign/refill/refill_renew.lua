-- Renews the word of a refill of a module's filter, or ends it. Behind `refilling.lua`.
--
-- KEYS[1] the statement   KEYS[2] the key   ARGV[1] the word   ARGV[2…] the ids of the seal
-- Returns 1, or 0 if it has ended.
if redis.call('HMGET', KEYS[1], 'on')[1] ~= ARGV[1] then return 0 end
if not stands(ARGV[1]) or not is_sealed({unpack(ARGV, 2)}) then
  redis.call('HSET', KEYS[1], 'on', '', 'floor', 0)
  return 0
end
local time = redis.call('TIME')
redis.call('HSET', KEYS[1], 'at', string.format('%.0f', time[1] * 1000000 + time[2]))
return 1

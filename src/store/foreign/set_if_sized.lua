-- Sets bits, if the filter still has the numbers that they were computed for.
--
-- KEYS[1] config   KEYS[2] bits   ARGV[1] the field of the size   ARGV[2] the size   ARGV[3] the field of the bits an id
-- ARGV[4] the bits an id   ARGV[5…] the bits' offsets
-- Returns 1, or an error in Redisson's words.
local config = redis.call('HMGET', KEYS[1], ARGV[1], ARGV[3])
if config[1] ~= ARGV[2] or config[2] ~= ARGV[4] then
  return redis.error_reply('ERR Bloom filter config has been changed')
end
for i = 5, #ARGV do redis.call('SETBIT', KEYS[2], ARGV[i], 1) end
return 1

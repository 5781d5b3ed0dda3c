-- Sets bits, if the filter still has the numbers that they were computed for.
--
-- KEYS[1] config   KEYS[2] bits   ARGV[1] size   ARGV[2] hashIterations   ARGV[3…] the bits' offsets
-- Returns OK, or an error in Redisson's words.
local config = redis.call('HMGET', KEYS[1], 'size', 'hashIterations')
if config[1] ~= ARGV[1] or config[2] ~= ARGV[2] then
  return redis.error_reply('ERR Bloom filter config has been changed')
end
for i = 3, #ARGV do
  redis.call('SETBIT', KEYS[2], ARGV[i], 1)
end
return redis.status_reply('OK')

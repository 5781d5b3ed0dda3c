-- Gives the rebuild lease back, and frees what was built under it. A DEL passes also while Redis's memory is full.
--
-- KEYS[1] lock   KEYS[2] next
-- ARGV[1] what the lock holds   ARGV[2] the nonce of the caller's filter, 8 bytes
-- Returns 1 or 0.
if redis.call('TYPE', KEYS[2]).ok == 'string' and redis.call('GETRANGE', KEYS[2], 24, 31) == ARGV[2] then
  redis.call('DEL', KEYS[2])
end
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])

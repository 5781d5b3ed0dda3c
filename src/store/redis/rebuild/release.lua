-- Gives the rebuild lease back, if it is still the caller's.
--
-- KEYS[1] lock
-- ARGV[1] the caller's nonce
-- Returns 1 or 0.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('DEL', KEYS[1])

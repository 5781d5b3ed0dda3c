-- Prolongs the rebuild lease, if it is still the caller's.
--
-- KEYS[1] lock   KEYS[2] next, which is left alone
-- ARGV[1] the caller's nonce   ARGV[2] life of the lease, ms
-- Returns 1 or 0.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
return redis.call('PEXPIRE', KEYS[1], ARGV[2])

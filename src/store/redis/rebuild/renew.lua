-- Prolongs the rebuild lease, if it is still the caller's, or takes it again where nobody has it and what was allocated under
-- it is there.
--
-- KEYS[1] lock   KEYS[2] next
-- ARGV[1] what the lock holds   ARGV[2] life of the lease, ms   ARGV[3] the nonce of the caller's filter, 8 bytes
-- Returns 1 or 0.
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then return redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
if holder or redis.call('TYPE', KEYS[2]).ok ~= 'string'
  or redis.call('GETRANGE', KEYS[2], 24, 31) ~= ARGV[3] then
  return 0
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1

-- Puts the live filter out of use, if it is still of the generation that was found incomplete.
--
-- KEYS[1] bits
-- ARGV[1] the generation, 8 bytes big-endian   ARGV[2] its offset
-- ARGV[3] the state of a disproved filter, one byte   ARGV[4] its offset
-- Returns 1, or 0 when another filter is live, or none.
if redis.call('TYPE', KEYS[1]).ok ~= 'string'
  or redis.call('GETRANGE', KEYS[1], ARGV[2], ARGV[2] + 7) ~= ARGV[1] then
  return 0
end
redis.call('SETRANGE', KEYS[1], ARGV[4], ARGV[3])
return 1

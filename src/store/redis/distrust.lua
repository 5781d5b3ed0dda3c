-- Puts the live filter out of use, if it is still of the generation that was found incomplete. One that took the
-- place of a disproved filter stays: the source misses those ids, and another rebuild would miss them again.
--
-- KEYS[1] bits   KEYS[2] meta
-- ARGV[1] the generation, 8 bytes big-endian   ARGV[2] its offset
-- ARGV[3] the state it gets, one byte   ARGV[4] its offset
-- ARGV[5] the generation in decimal; '' to put it out of use whatever it replaced
-- Returns 1, or 0 when the live filter stays in use.
if redis.call('TYPE', KEYS[1]).ok ~= 'string'
  or redis.call('GETRANGE', KEYS[1], ARGV[2], ARGV[2] + 7) ~= ARGV[1]
  or redis.call('HGET', KEYS[2], 'rebuilt') == ARGV[5] then
  return 0
end
redis.call('SETRANGE', KEYS[1], ARGV[4], ARGV[3])
return 1

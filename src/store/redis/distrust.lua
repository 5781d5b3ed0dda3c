-- Puts the live filter out of use, if it is still of the generation that was found incomplete. Where that took the place of a
-- disproved filter, the first id is only noted: another rebuild at once would miss it again. A second id puts the filter out of use
-- until a rebuild by schedule or by hand.
--
-- KEYS[1] bits   KEYS[2] meta
-- ARGV[1] the generation, 8 bytes big-endian   ARGV[2] the state it gets, one byte   ARGV[3] the generation in decimal
-- ARGV[4] the id's digest, 16 bytes   ARGV[5] the state of a live filter   ARGV[6] the state of one disproved twice
-- Returns 0 when the filter stays as it is, 1 when it is out of use, 2 when it is so until a rebuild by schedule or by hand.
if redis.call('TYPE', KEYS[1]).ok ~= 'string'
  or redis.call('GETRANGE', KEYS[1], 16, 23) ~= ARGV[1]
  or redis.call('GETRANGE', KEYS[1], 11, 11) ~= ARGV[5] then
  return 0
end
local rebuilt, lacked = string.match(redis.call('HGET', KEYS[2], 'rebuilt') or '', '^(%d+) ?(.*)$')
if rebuilt == ARGV[3] then
  if lacked == '' then redis.call('HSET', KEYS[2], 'rebuilt', rebuilt .. ' ' .. ARGV[4]) end
  if lacked == '' or lacked == ARGV[4] then return 0 end
  redis.call('SETRANGE', KEYS[1], 11, ARGV[6])
  return 2
end
redis.call('SETRANGE', KEYS[1], 11, ARGV[2])
return 1

-- Catch up: turns the building filter from loading to catching up. From here on adds go to both filters.
--
-- KEYS[1] next   KEYS[2] meta
-- ARGV[1] the expected header, loading   ARGV[2] the same, catching up
-- ARGV[3] length of the whole filter   ARGV[4] incarnation noted at mark
-- Returns {'OK', seq, last entry's ms}, {'LOST'} or {'GAP'}. May be repeated.
local head = redis.call('GETRANGE', KEYS[1], 0, 63)
if (head ~= ARGV[1] and head ~= ARGV[2])
  or redis.call('STRLEN', KEYS[1]) ~= tonumber(ARGV[3]) then
  return {'LOST'}
end
if redis.call('HGET', KEYS[2], 'inc') ~= ARGV[4] then return {'GAP'} end
if head == ARGV[1] then redis.call('HDEL', KEYS[2], 'not_in_next') end
redis.call('SETRANGE', KEYS[1], 0, ARGV[2])
return {
  'OK',
  redis.call('HGET', KEYS[2], 'seq') or '0',
  redis.call('HGET', KEYS[2], 'last') or '0',
}

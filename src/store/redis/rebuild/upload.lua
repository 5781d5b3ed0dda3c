-- Upload: writes a piece of the local filter. In the loading state no other process writes there.
--
-- KEYS[1] next
-- ARGV[1] the expected header (64 bytes, loading state)   ARGV[2] length of the whole filter
-- ARGV[3] byte offset of the piece   ARGV[4] the piece
-- Returns 'OK' or 'LOST'.
if redis.call('GETRANGE', KEYS[1], 0, 63) ~= ARGV[1]
  or redis.call('STRLEN', KEYS[1]) ~= tonumber(ARGV[2]) then
  return 'LOST'
end
redis.call('SETRANGE', KEYS[1], ARGV[3], ARGV[4])
return 'OK'

-- Replay: sets bits of journalled ids in the building filter.
--
-- KEYS[1] next
-- ARGV[1] the expected header (64 bytes, catching up)   ARGV[2] length of the whole filter
-- ARGV[3] bit offsets, u32 big-endian each
-- Returns 'OK' or 'LOST'.
if redis.call('GETRANGE', KEYS[1], 0, 63) ~= ARGV[1]
  or redis.call('STRLEN', KEYS[1]) ~= tonumber(ARGV[2]) then
  return 'LOST'
end
for i = 1, #ARGV[3], 4 do
  local a, b, c, d = string.byte(ARGV[3], i, i + 3)
  redis.call('SETBIT', KEYS[1], ((a * 256 + b) * 256 + c) * 256 + d, 1)
end
return 'OK'

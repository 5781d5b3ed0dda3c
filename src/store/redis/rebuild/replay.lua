-- Replay: sets bits of journalled ids in the building filter.
--
-- KEYS[1] next
-- ARGV[1] the expected header (64 bytes, catching up)   ARGV[2] length of the whole filter
-- ARGV[3] the bits, block by block: the block's offset, u32 big-endian, and a mask of 64 bytes
-- Returns 'OK' or 'LOST'.
if redis.call('GETRANGE', KEYS[1], 0, 63) ~= ARGV[1]
  or redis.call('STRLEN', KEYS[1]) ~= tonumber(ARGV[2]) then
  return 'LOST'
end
local WORDS = '>' .. string.rep('i4', 16)
for i = 1, #ARGV[3], 68 do
  local at = struct.unpack('>I4', ARGV[3], i)
  local bits = {struct.unpack(WORDS, redis.call('GETRANGE', KEYS[1], at, at + 63))}
  local mask = {struct.unpack(WORDS, ARGV[3], i + 4)}
  for word = 1, 16 do bits[word] = bit.bor(bits[word], mask[word]) end
  redis.call('SETRANGE', KEYS[1], at, struct.pack(WORDS, unpack(bits, 1, 16)))
end
return 'OK'

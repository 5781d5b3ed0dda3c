-- States that a filter is whole: seals its keys and writes the statement, if all witnesses are as they were.
--
-- KEYS[1] the statement   KEYS[2…] the filter's keys
-- ARGV[1] the statement   ARGV[2] its witnesses, 18 bytes each: the key's place u16, the word's first bit u64, its bits
-- ARGV[3] the seal's first bit   ARGV[4] the seal
-- Returns 1, or 0 if a witness is not as it was, or the guard's own filter has taken this one's place.
if redis.call('HGET', KEYS[1], 'on') == 'handed over' then return 0 end
for at = 1, #ARGV[2], 18 do
  local place = struct.unpack('>H', ARGV[2], at)
  local high, low = struct.unpack('>I4I4', ARGV[2], at + 2)
  local first = (high * 4294967296 + low) / 8
  local found = redis.call('GETRANGE', KEYS[place + 2], first, first + 7)
  for byte = 1, 8 do
    local set = string.byte(ARGV[2], at + 9 + byte)
    if bit.band(string.byte(found, byte) or 0, set) ~= set then return 0 end
  end
end
for key = 2, #KEYS do
  redis.call('BITFIELD', KEYS[key], 'SET', 'i64', ARGV[3], ARGV[4])
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'on', ARGV[1], 'witnesses', ARGV[2])
return 1

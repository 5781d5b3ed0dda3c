-- Reads a piece of a bitmap, or sets bits in it, if it still is the one that the refill has sealed. None is cleared, and the
-- key's TTL stays. Behind `refilling.lua`.
--
-- KEYS[1] the statement   KEYS[2] the key
-- ARGV[1] the refill's word   ARGV[2] the seal's first byte   ARGV[3] the piece's first byte   ARGV[4] its last
-- ARGV[5] bits to set, if any
-- Returns what was there, or 0 if it is another.
if not stands(ARGV[1]) then return 0 end
if redis.call('GETRANGE', KEYS[2], ARGV[2], ARGV[2] + 7) ~= redis.call('HMGET', KEYS[1], 'seal')[1] then return 0 end
local found = redis.call('GETRANGE', KEYS[2], ARGV[3], ARGV[4])
if not ARGV[5] then return found end
local words = {}
for at = 1, #found, 4 do
  local new = string.sub(ARGV[5], at, at + 3)
  if new == '\0\0\0\0' then
    words[#words + 1] = string.sub(found, at, at + 3)
  else
    words[#words + 1] = struct.pack('>i4', bit.bor(struct.unpack('>i4', found, at), (struct.unpack('>i4', new))))
  end
end
redis.call('SETRANGE', KEYS[2], ARGV[3], table.concat(words))
return found

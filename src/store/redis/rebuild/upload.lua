-- Upload: brings a piece of the local filter to the one being built, beside what inserts have set there.
--
-- KEYS[1] next
-- ARGV[1] the expected header (64 bytes)   ARGV[2] length of the whole filter
-- ARGV[3] byte offset of the piece   ARGV[4] the piece, whole blocks
-- ARGV[5] how many blocks come before it
-- Returns 'OK' or 'LOST'. May be repeated. How many blocks are there is kept behind the stamp, u32 big-endian.
if redis.call('GETRANGE', KEYS[1], 0, 63) ~= ARGV[1]
  or redis.call('STRLEN', KEYS[1]) ~= tonumber(ARGV[2]) then
  return 'LOST'
end
local done = struct.unpack('>I4', redis.call('GETRANGE', KEYS[1], 72, 75))
if done < tonumber(ARGV[5]) then return 'LOST' end
local piece = ARGV[4]
local there = redis.call('GETRANGE', KEYS[1], ARGV[3], ARGV[3] + #piece - 1)
local WORDS = '>' .. string.rep('i4', 16)
local parts, from = {}, 1
local found = string.find(there, '[^%z]')
while found do
  local block = found - (found - 1) % 64
  local bits, more = {struct.unpack(WORDS, there, block)}, {struct.unpack(WORDS, piece, block)}
  for word = 1, 16 do bits[word] = bit.bor(bits[word], more[word]) end
  parts[#parts + 1] = string.sub(piece, from, block - 1)
  parts[#parts + 1] = struct.pack(WORDS, unpack(bits, 1, 16))
  from = block + 64
  found = string.find(there, '[^%z]', from)
end
parts[#parts + 1] = string.sub(piece, from)
redis.call('SETRANGE', KEYS[1], ARGV[3], table.concat(parts))
done = math.max(done, ARGV[5] + #piece / 64)
redis.call('SETRANGE', KEYS[1], 72, struct.pack('>I4', done))
return 'OK'

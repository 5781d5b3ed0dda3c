-- States that a filter is whole, if it still is what was inspected: seals a bitmap, and writes the statement.
--
-- KEYS[1] the statement   KEYS[2…] the filter's keys
-- ARGV[1] the statement   ARGV[2] the layout and numbers in it   ARGV[3] witnesses, none of a module (record.rs)
-- of a bitmap: ARGV[4] the seal   ARGV[5] its first byte   ARGV[6] the first bit that no id's bits fall on
-- of a module: ARGV[4…] the ids of its seal
-- Returns 1; 0 if the filter is not what was inspected; -1 if anything but a seal is behind its bits; what is stated, if it was
-- handed over, or if a filter of another layout or other numbers is stated, and sealed.

-- Whether there is nothing behind the bits of a key but clear bits and a seal, of any age (seal.rs).
local function is_clear(key, first, bits)
  if redis.call('STRLEN', key) > first + 8 then return false end
  local behind = math.floor(bits / 8)
  local found = redis.call('GETRANGE', key, behind, first + 7)
  found = found .. string.rep('\0', first + 8 - behind - #found)
  for at = 1, first - behind do
    local byte = string.byte(found, at)
    if at == 1 then byte = bit.band(byte, bit.rshift(255, bits % 8)) end
    if byte ~= 0 then return false end
  end
  local upper, lower = struct.unpack('>I4I4', found, first - behind + 1)
  local set = 0
  for at = 0, 31 do set = set + bit.band(bit.rshift(upper, at), 1) end
  return (upper == 0 and lower == 0) or (set == 7 and bit.tobit(lower) == bit.rol(upper, 13))
end

local on, seal, disproved = unpack(redis.call('HMGET', KEYS[1], 'on', 'seal', 'disproved'))
if on and string.sub(on, 1, 15) == 'handed over to ' then return on end
local fields = {'on', ARGV[1], 'witnesses', ARGV[3]}
if ARGV[3] == '' then
  for _, one in ipairs(redis.call('BF.MEXISTS', KEYS[2], unpack(ARGV, 4))) do
    if one ~= 1 and one ~= true then return 0 end
  end
else
  local first, other = string.match(on or '', '^2 %x+ %d+ %d+ (%d+) (.*)$')
  if other and other ~= ARGV[2] and seal == redis.call('GETRANGE', KEYS[2], first / 8, first / 8 + 7) then return on end
  for at = 1, #ARGV[3], 18 do
    local place, high, low = struct.unpack('>HI4I4', ARGV[3], at)
    local word = (high * 4294967296 + low) / 8
    local found = redis.call('GETRANGE', KEYS[place + 2], word, word + 7)
    for byte = 1, 8 do
      local set = string.byte(ARGV[3], at + 9 + byte)
      if bit.band(string.byte(found, byte) or 0, set) ~= set then return 0 end
    end
  end
  for key = 2, #KEYS do
    if not is_clear(KEYS[key], tonumber(ARGV[5]), tonumber(ARGV[6])) then return -1 end
  end
  for key = 2, #KEYS do redis.call('SETRANGE', KEYS[key], ARGV[5], ARGV[4]) end
  local now = redis.call('TIME')
  for _, field in ipairs({'seal', ARGV[4], 'before', ARGV[4], 'at', string.format('%.0f', now[1] * 1000000 + now[2])}) do
    fields[#fields + 1] = field
  end
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], unpack(fields))
if disproved then redis.call('HSET', KEYS[1], 'stays', '1') end
return 1

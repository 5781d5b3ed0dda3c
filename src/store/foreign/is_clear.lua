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

-- States that a filter is whole, if it still is what was inspected: seals a bitmap, and writes the statement.
--
-- KEYS[1] the statement   KEYS[2…] the filter's keys
-- ARGV[1] the statement   ARGV[2] the layout and numbers in it   ARGV[3] witnesses, none of a module (record.rs)
-- of a bitmap: ARGV[4] the seal's first byte   ARGV[5] the seal   ARGV[6…] for each key a seal that was found in it, or nothing
-- of a module: ARGV[4…] the ids of its seal
-- Returns 1; 0 if the filter is not what was inspected; -1 if bits are set where the seal belongs; what is stated, if it was
-- handed over, or if a filter of another layout or other numbers is stated, and sealed.
local on, seal, before, disproved = unpack(redis.call('HMGET', KEYS[1], 'on', 'seal', 'before', 'disproved'))
if on and string.sub(on, 1, 15) == 'handed over to ' then return on end
local fields = {'on', ARGV[1], 'witnesses', ARGV[3]}
if ARGV[3] == '' then
  local found = redis.call('BF.MEXISTS', KEYS[2], unpack(ARGV, 4))
  if #found ~= #ARGV - 3 then return 0 end
  for _, one in ipairs(found) do
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
    local found = redis.call('GETRANGE', KEYS[key], ARGV[4], ARGV[4] + 7)
    local is_clear = found == string.rep('\0', #found)
    if not is_clear and found ~= seal and found ~= before and found ~= ARGV[key + 4] then return -1 end
    if redis.call('STRLEN', KEYS[key]) > ARGV[4] + 8 then return -1 end
  end
  for key = 2, #KEYS do redis.call('SETRANGE', KEYS[key], ARGV[4], ARGV[5]) end
  local now = redis.call('TIME')
  for _, field in ipairs({'seal', ARGV[5], 'before', ARGV[5], 'at', string.format('%.0f', now[1] * 1000000 + now[2])}) do
    fields[#fields + 1] = field
  end
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], unpack(fields))
if disproved then redis.call('HSET', KEYS[1], 'stays', '1') end
return 1

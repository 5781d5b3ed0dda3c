-- States that a filter is whole, if it still is what was inspected or refilled: seals a bitmap, and writes the statement.
-- Behind `is_clear.lua` and `refilling.lua`.
--
-- KEYS[1] the statement   KEYS[2…] the filter's keys
-- ARGV[1] the statement   ARGV[2] the layout and numbers in it   ARGV[3] witnesses, none of a module (record.rs)
-- ARGV[4] the word of the refill (refill.lua), none for what was inspected   ARGV[5] as how many ids a source
-- should give
-- of a bitmap: ARGV[6] the seal   ARGV[7] its first byte   ARGV[8] the first bit that no id's bits fall on
-- of a module: ARGV[6…] the ids of its seal
-- Returns 1; 0 if the filter is not what it was; -1 if anything but a seal is behind its bits; what is stated, if a filter of another layout or other numbers is stated, and sealed.
local on, seal, disproved = unpack(redis.call('HMGET', KEYS[1], 'on', 'seal', 'disproved'))
if ARGV[4] ~= '' and not stands(ARGV[4]) then return 0 end
local fields = {'on', ARGV[1], 'witnesses', ARGV[3], 'proven', ARGV[5] .. ' ' .. ARGV[2]}
if ARGV[3] == '' then
  if not is_sealed({unpack(ARGV, 6)}) then return 0 end
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
    if ARGV[4] ~= '' and redis.call('GETRANGE', KEYS[key], ARGV[7], ARGV[7] + 7) ~= seal then return 0 end
    if not is_clear(KEYS[key], tonumber(ARGV[7]), tonumber(ARGV[8])) then return -1 end
  end
  for key = 2, #KEYS do redis.call('SETRANGE', KEYS[key], ARGV[7], ARGV[6]) end
  local now = redis.call('TIME')
  for _, field in ipairs({'seal', ARGV[6], 'before', ARGV[6], 'at', string.format('%.0f', now[1] * 1000000 + now[2])}) do
    fields[#fields + 1] = field
  end
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], unpack(fields))
if disproved then redis.call('HSET', KEYS[1], 'stays', '1') end
return 1

-- Looks whether a bitmap still is what was stated: at its seal, which is turned over where it is old, and then at its witnesses.
--
-- KEYS[1] the statement   KEYS[2…] the filter's keys
-- ARGV[1] the statement   ARGV[2] the seal's first byte   ARGV[3] a new seal   ARGV[4] from which age on it takes the last one's
-- place, in µs
-- Returns 1; 0 if the filter is not what it was; -1 if the statement is another.
local on, seal, at, witnesses = unpack(redis.call('HMGET', KEYS[1], 'on', 'seal', 'at', 'witnesses'))
if on ~= ARGV[1] then return -1 end
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local age = now - (tonumber(at) or 0)
-- A refill ends with the first sign of a loss, and where its seal was not turned over in time.
local function lost()
  if string.sub(on, 1, 12) == 'refilled by ' then redis.call('HSET', KEYS[1], 'on', '') end
  return 0
end
if string.sub(on, 1, 12) == 'refilled by ' and (age < 0 or age > 3000000) then return lost() end
if not witnesses then return 0 end
for key = 2, #KEYS do
  if redis.call('GETRANGE', KEYS[key], ARGV[2], ARGV[2] + 7) ~= seal then return lost() end
  -- A writer with more bits.
  if redis.call('STRLEN', KEYS[key]) > ARGV[2] + 8 then return lost() end
end
if age >= 0 and age < tonumber(ARGV[4]) then return 1 end
local seen = {}
for at = 1, #witnesses, 18 do
  local place, high, low = struct.unpack('>HI4I4', witnesses, at)
  local word = (high * 4294967296 + low) / 8
  local found = redis.call('GETRANGE', KEYS[place + 2], word, word + 7)
  found = found .. string.rep('\0', 8 - #found)
  for byte = 1, 8 do
    local set = string.byte(witnesses, at + 9 + byte)
    if bit.band(string.byte(found, byte), set) ~= set then return 0 end
  end
  seen[#seen + 1] = string.sub(witnesses, at, at + 9) .. found
end
for key = 2, #KEYS do redis.call('SETRANGE', KEYS[key], ARGV[2], ARGV[3]) end
redis.call('HSET', KEYS[1], 'seal', ARGV[3], 'before', seal, 'at', string.format('%.0f', now))
-- Bits that were set since are watched, too.
seen = table.concat(seen)
if seen ~= witnesses then redis.call('HSET', KEYS[1], 'witnesses', seen) end
return 1

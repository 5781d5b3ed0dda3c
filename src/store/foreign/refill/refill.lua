-- Begins a refill, unless another one goes on: seals a bitmap, so that what is inserted from now on is known to stay in it.
-- What was stated ends. Behind `is_clear.lua`.
--
-- KEYS[1] the statement   KEYS[2…] the filter's keys
-- ARGV[1] the refill's word   ARGV[2] the Redis process, as statements name it   ARGV[3] the last generation that the caller
-- knows not to hold any more
-- of a bitmap: ARGV[4] the seal   ARGV[5] its first byte   ARGV[6] the first bit that no id's bits fall on
-- Returns 1; 0 if another refill goes on, or trust was stated meanwhile; -1 if anything but a seal is behind the bits.
local on, at, proven, disproved, drawn = unpack(redis.call('HMGET', KEYS[1], 'on', 'at', 'proven', 'disproved', 'drawn'))
on = on or ''
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local age = now - (tonumber(at) or 0)
if string.sub(on, 1, 12) == 'refilled by ' and age >= 0 and age <= 3000000 then return 0 end
-- One that holds no more is taken back (revoke.lua), but that may have failed.
local run, generation = string.match(on, '^2 (%x+) (%d+) ')
if run == ARGV[2] and tonumber(generation) > tonumber(ARGV[3]) then return 0 end
if ARGV[4] then
  for key = 2, #KEYS do
    if not is_clear(KEYS[key], tonumber(ARGV[5]), tonumber(ARGV[6])) then return -1 end
  end
  for key = 2, #KEYS do redis.call('SETRANGE', KEYS[key], ARGV[5], ARGV[4]) end
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'on', ARGV[1], 'at', string.format('%.0f', now), 'witnesses', '')
if ARGV[4] then redis.call('HSET', KEYS[1], 'seal', ARGV[4], 'before', ARGV[4]) end
if proven then redis.call('HSET', KEYS[1], 'proven', proven) end
if drawn then redis.call('HSET', KEYS[1], 'drawn', drawn) end
if disproved then redis.call('HSET', KEYS[1], 'disproved', disproved) end
return 1

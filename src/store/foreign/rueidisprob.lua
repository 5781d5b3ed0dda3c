-- Sets the bits of ids, and counts the ids of which a bit was clear.
--
-- KEYS[1] bits   KEYS[2] counter   ARGV[1] bits an id   ARGV[2…] the bits' offsets, id after id
-- Returns the counter.
local hashes = tonumber(ARGV[1])
local new, is_new = 0, false
for i = 2, #ARGV do
  if redis.call('SETBIT', KEYS[1], ARGV[i], 1) == 0 then is_new = true end
  if (i - 1) % hashes == 0 then
    if is_new then new = new + 1 end
    is_new = false
  end
end
return redis.call('INCRBY', KEYS[2], new)

-- How many ids have all their bits set, as Redisson asks: only if the filter is of the size that the caller thinks.
-- KEYS: config hash, bits. ARGV: bits of the filter; hashes an id; number of ids; the bits' offsets, id after id.
-- Reply: the number, or an error.
local size = redis.call('HGET', KEYS[1], 'size')
local hashes = redis.call('HGET', KEYS[1], 'hashIterations')
assert(size == ARGV[1] and hashes == ARGV[2], 'another configuration')
local each = (#ARGV - 3) / ARGV[3]
local unset, absent = 0, 0
for i = 4, #ARGV do
  if redis.call('GETBIT', KEYS[2], ARGV[i]) == 0 then
    unset = unset + 1
  end
  if (i - 3) % each == 0 then
    if unset > 0 then
      absent = absent + 1
    end
    unset = 0
  end
end
return ARGV[3] - absent

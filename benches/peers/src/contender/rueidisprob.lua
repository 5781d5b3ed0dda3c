-- Whether all bits of an id are set, as rueidisprob asks: a BITFIELD for each bit, for any number of ids.
-- KEYS: bits. ARGV: hashes an id; the bits' offsets, id after id. Reply: for each id 1, or nil.
local hashes = tonumber(ARGV[1])
local answers = {}
local set = 0
for i = 2, #ARGV do
  set = set + redis.call('BITFIELD', KEYS[1], 'GET', 'u1', tonumber(ARGV[i]))[1]
  if (i - 1) % hashes == 0 then
    table.insert(answers, set == hashes)
    set = 0
  end
end
return answers

-- Whether all bits are set, as go-zero asks: up to the first bit that is not.
-- KEYS: bits. ARGV: the bits' offsets. Reply: 1, or nil.
for _, offset in ipairs(ARGV) do
  if tonumber(redis.call('GETBIT', KEYS[1], offset)) == 0 then
    return false
  end
end
return true

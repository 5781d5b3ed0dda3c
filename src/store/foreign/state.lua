-- States that a filter is whole, if its keys still have the lengths that were looked at. A bitmap gets a length of its own.
--
-- KEYS[1] the statement   KEYS[2…] the keys of a bitmap
-- ARGV[1] the statement   ARGV[2] the length of each key from now on   ARGV[3…] their lengths as they were looked at
-- Returns 1, or 0 if a length is another.
for i = 2, #KEYS do
  if redis.call('STRLEN', KEYS[i]) ~= tonumber(ARGV[i + 1]) then return 0 end
end
for i = 2, #KEYS do
  if tonumber(ARGV[i + 1]) < tonumber(ARGV[2]) then redis.call('SETRANGE', KEYS[i], ARGV[2] - 1, '\0') end
end
redis.call('SET', KEYS[1], ARGV[1])
return 1

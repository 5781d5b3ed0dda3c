-- States that a filter is whole, if its string still has the length that was looked at, and gives that a length of its own.
--
-- KEYS[1] the statement   KEYS[2] the string; none of a module's filter
-- ARGV[1] the statement   ARGV[2] the string's length from now on   ARGV[3] its length as it was looked at
-- Returns 1, or 0 if the length is another.
if KEYS[2] then
  if redis.call('STRLEN', KEYS[2]) ~= tonumber(ARGV[3]) then return 0 end
  if tonumber(ARGV[3]) < tonumber(ARGV[2]) then redis.call('SETRANGE', KEYS[2], ARGV[2] - 1, '\0') end
end
redis.call('SET', KEYS[1], ARGV[1])
return 1

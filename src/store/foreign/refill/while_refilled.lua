-- Runs commands, if a rebuild is under way that has this token.
--
-- KEYS[1] the marker   ARGV[1] the token
-- ARGV[2…] for each command: the number of its words, and the words
-- Returns 1, or 0 if the rebuild is over.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
local at = 2
while at < #ARGV do
  local words = tonumber(ARGV[at])
  redis.call(unpack(ARGV, at + 1, at + words))
  at = at + words + 1
end
return 1

-- Begins a rebuild: makes the new keys, and then sets the marker that inserts look at. A rebuild that cannot make them
-- leaves no marker, so that inserts do not wait for keys that will never be.
--
-- KEYS[1] the marker   KEYS[2] the statement   ARGV[1] the token   ARGV[2] its life in ms
-- ARGV[3…] for each command that makes the keys: the number of its words, and the words
-- Returns 1; 0 if another rebuild is under way; -1 if the guard's own filter has taken this one's place.
if redis.call('HGET', KEYS[2], 'on') == 'handed over' then return -1 end
if redis.call('GET', KEYS[1]) then return 0 end
local at = 3
while at < #ARGV do
  local words = tonumber(ARGV[at])
  redis.call(unpack(ARGV, at + 1, at + words))
  at = at + words + 1
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 1

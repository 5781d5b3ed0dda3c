-- States that a module's filter is whole, if all ids of its seal are there.
--
-- KEYS[1] the statement   KEYS[2] the filter   ARGV[1] the statement   ARGV[2…] the ids of the seal
-- Returns 1, or 0 if an id is missing, or the guard's own filter has taken this one's place.
if redis.call('HGET', KEYS[1], 'on') == 'handed over' then return 0 end
local found = redis.call('BF.MEXISTS', KEYS[2], unpack(ARGV, 2))
if #found ~= #ARGV - 1 then return 0 end
for _, one in ipairs(found) do
  if one ~= 1 then return 0 end
end
redis.call('DEL', KEYS[1])
redis.call('HSET', KEYS[1], 'on', ARGV[1], 'witnesses', '')
return 1

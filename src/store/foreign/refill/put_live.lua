-- Puts new keys in the live ones' place and states that they are whole, if the rebuild has its token and each key its seal.
--
-- KEYS[1] the marker   KEYS[2] the statement   KEYS[3] the counter, if ARGV[5] is not empty
-- KEYS[4…] each new key, and the live one after it
-- ARGV[1] the token   ARGV[2] the statement   ARGV[3] its witnesses   ARGV[4] the keys' life in ms, 0 for that of the live one
-- ARGV[5] what to count from   ARGV[6] what a look at a seal replies
-- ARGV[7…] for each new key the look at its seal: the number of its words, and the words
-- Returns 1, or 0 if the new filter is not whole, or the guard's own has taken the live one's place.
if redis.call('GET', KEYS[1]) ~= ARGV[1] then return 0 end
if redis.call('HGET', KEYS[2], 'on') == 'handed over' then return 0 end
local at = 7
while at < #ARGV do
  local words = tonumber(ARGV[at])
  local seal = redis.call(unpack(ARGV, at + 1, at + words))
  if type(seal) == 'table' then seal = table.concat(seal) end
  if seal ~= ARGV[6] then return 0 end
  at = at + words + 1
end
for key = 4, #KEYS, 2 do
  local life = tonumber(ARGV[4])
  if life == 0 then life = redis.call('PTTL', KEYS[key + 1]) end
  redis.call('RENAME', KEYS[key], KEYS[key + 1])
  if life > 0 then
    redis.call('PEXPIRE', KEYS[key + 1], life)
  else
    redis.call('PERSIST', KEYS[key + 1])
  end
end
if ARGV[5] ~= '' then redis.call('SET', KEYS[3], ARGV[5]) end
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('HSET', KEYS[2], 'on', ARGV[2], 'witnesses', ARGV[3])
return 1

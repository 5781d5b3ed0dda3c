-- Gives up the replay of the caller's inserts. The live filter stops answering, and only a rebuild that begins after the last of
-- their transactions is over may go live (rebuild/swap.lua). No nulls are stored for as long behind that as the record of recent
-- inserts reaches back.
--
-- KEYS[1] meta   KEYS[2] bits
-- ARGV[1] the incarnation the caller joined   ARGV[2] how long the transactions may stay open, ms
-- The metadata's field `unvouched` is the moment at which the last of them is over, ms.
-- Returns 'OK' or 'OTHER'.
if redis.call('HGET', KEYS[1], 'inc') ~= ARGV[1] then return 'OTHER' end
local time = redis.call('TIME')
local over = time[1] * 1000 + math.floor(time[2] / 1000) + ARGV[2]
if over > tonumber(redis.call('HGET', KEYS[1], 'unvouched') or '0') then
  redis.call('HSET', KEYS[1], 'unvouched', string.format('%.0f', over))
end
if redis.call('TYPE', KEYS[2]).ok == 'string'
  and redis.call('GETRANGE', KEYS[2], 0, 9) == 'BLMGUARD\0\2' then
  -- 0 is no state, and every check reads it.
  redis.call('SETRANGE', KEYS[2], 11, '\0')
end
return 'OK'

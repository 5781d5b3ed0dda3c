-- Gives up the replay of the caller's adds. Their create marks may be lost: no nulls until all marks would have ended.
-- Where a rebuild may have missed them, the live filter stops answering, too, and only a rebuild that begins after the
-- last of their transactions is over may go live (rebuild/swap.lua).
--
-- KEYS[1] meta   KEYS[2] bits
-- ARGV[1] the incarnation the caller joined   ARGV[2] how long the transactions may stay open, ms; '' where all were
--         over when the incarnation began, so that its rebuilds read what has become of them
-- The metadata's field `unvouched` is the moment at which the last of them is over.
-- Returns 'OK' or 'GAP'.
if redis.call('HGET', KEYS[1], 'inc') ~= ARGV[1] then return 'GAP' end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)
local function raise(field, moment)
  if moment > tonumber(redis.call('HGET', KEYS[1], field) or '0') then
    redis.call('HSET', KEYS[1], field, string.format('%.0f', moment))
  end
end
-- No process's marks last longer.
raise('blind', now + tonumber(redis.call('HGET', KEYS[1], 'reach') or '0'))
if ARGV[2] == '' then return 'OK' end
raise('unvouched', now + ARGV[2])
if redis.call('TYPE', KEYS[2]).ok == 'string'
  and redis.call('GETRANGE', KEYS[2], 0, 7) == 'BLMGUARD' then
  -- 0 is no state, and every check reads it.
  redis.call('SETRANGE', KEYS[2], 11, '\0')
end
return 'OK'
